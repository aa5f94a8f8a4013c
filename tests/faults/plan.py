"""What is to happen in one run: jobs, servers and faults, all from one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

SERVICE, AGENT = "service", "agent"
STAGES = ("waiting", "launching", "running", "stopping", "ending", "reporting")
"""Where a lease may be when a fault strikes; ``waiting``: the next one is not there yet."""
SAVED = "saved"
"""It runs, and has a checkpoint: for plans that are made by hand."""
RESIZING, PAUSING = "resizing", "pausing"
"""A job goes over to another lease: new processes get ready, then all of them pause."""
HABITS = ("", "", "", "deaf", "forks", "trips", "lingers", "plain", "deaf,forks", "plain,forks")
FAULTS = {
    "kill the service": 3,
    "kill the agent": 3,
    "kill the agent for ever": 1,
    "kill the job": 2,
    "kill the shim": 2,
    "cut the link": 2,
    "stall the link": 1,
    "stall what the agent hears": 1,
    "stall what the agent says": 1,
    "delay the link": 1,
    "half-close the link": 1,
    "freeze the service": 2,
    "freeze the agent": 2,
    "freeze the shim": 1,
    "freeze the job": 1,
    "fill the service's disk": 2,
    "fill the agent's disk": 2,
    "slow the service's disk": 1,
    "slow the agent's disk": 1,
}
"""What may go wrong, and how often it does in comparison."""
OF_RESIZES = {"kill a joiner": 6, "kill a kept process": 6}
"""The same, beside those, where jobs change their size."""


@dataclass(frozen=True)
class JobPlan:
    """A job as submitted; ``cancel_s``: somebody cancels it then."""

    submit_s: float
    steps: int
    step_s: float
    every: int
    workers: int
    habits: str
    cancel_s: float | None = None
    elasticity: str = ""


@dataclass(frozen=True)
class AgentPlan:
    """A server. ``garbles``: how likely each message is doubled, held back or overtaken.

    ``wired``: it is in a network namespace of its own.
    """

    name: str
    accelerator: str
    devices: int
    garbles: float = 0.0
    wired: bool = False


@dataclass(frozen=True)
class Fault:
    """Wait, let the stage be seen so many times, strike, and heal after ``for_s``.

    A stage that is not seen for ``patience_s`` is not waited for.
    """

    kind: str
    stage: str
    wait_s: float
    sightings: int
    for_s: float
    patience_s: float = 5.0


@dataclass(frozen=True)
class Plan:
    """One run. Lanes of faults go on at once, the faults of a lane one after the other."""

    seed: int
    jobs: tuple[JobPlan, ...]
    agents: tuple[AgentPlan, ...]
    lanes: tuple[tuple[Fault, ...], ...]
    policy: str = "max_min_fairness"
    plant: str = ""
    """A bug of ours that is put into the daemons, to see that it is caught."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}{f', with the bug {self.plant!r}' if self.plant else ''}"]
        lines += [f"  {each}" for each in (*self.agents, *self.jobs)]
        lines += [f"  lane {n}: {fault}" for n, lane in enumerate(self.lanes) for fault in lane]
        return "\n".join(lines)


def plan_of(seed: int) -> Plan:
    """The same seed, the same plan; in every second one jobs change their size."""
    return _elastic_plan(seed) if seed % 2 else _rigid_plan(seed)


def _rigid_plan(seed: int) -> Plan:
    chance = Random(f"faults {seed}")
    garbles = chance.choice((0.0, 0.0, 0.1, 0.3))
    agents = [AgentPlan("a", "v100", 2, garbles), AgentPlan("b", "v100", chance.choice((1, 2)), garbles)]
    if chance.random() < 0.5:
        agents.append(AgentPlan("c", "k80", 1, garbles))
    jobs = tuple(_job(chance) for _ in range(chance.randint(4, 7)))
    lanes = tuple(
        tuple(_fault(chance) for _ in range(chance.randint(3, 4))) for _ in range(chance.choice((2, 2, 3)))
    )
    return Plan(seed, jobs, tuple(agents), lanes)


def _elastic_plan(seed: int) -> Plan:
    """Some jobs come while others run, so that these shrink, and grow when others end."""
    chance = Random(f"resizes {seed}")
    garbles = chance.choice((0.0, 0.0, 0.0, 0.1))
    agents = [AgentPlan("a", "v100", 2, garbles), AgentPlan("b", "v100", chance.choice((1, 2)), garbles)]
    jobs = tuple(_elastic_job(chance, 2.0 * n) for n in range(chance.randint(3, 5)))
    stages = (*STAGES, *4 * (RESIZING, PAUSING))
    lanes = tuple(
        tuple(_fault(chance, FAULTS | OF_RESIZES, stages) for _ in range(chance.randint(2, 4)))
        for _ in range(chance.choice((1, 2)))
    )
    return Plan(seed, jobs, tuple(agents), lanes, "elastic(max_min_fairness)")


def _elastic_job(chance: Random, submit_s: float) -> JobPlan:
    rigid = chance.random() < 0.2
    return JobPlan(
        submit_s=submit_s + chance.uniform(0.0, 1.0),
        steps=chance.randint(60, 250),
        step_s=chance.choice((0.02, 0.05)),
        every=chance.choice((1, 5, 10)),
        workers=chance.choice((1, 2)),
        habits=chance.choice(("", "", "deaf", "trips")),
        cancel_s=submit_s + chance.uniform(2.0, 8.0) if chance.random() < 0.1 else None,
        elasticity="" if rigid else "workers:1-3/6",
    )


def _job(chance: Random) -> JobPlan:
    habits = "doomed" if chance.random() < 0.05 else chance.choice(HABITS)
    submit_s = chance.uniform(0.0, 4.0)
    return JobPlan(
        submit_s=submit_s,
        steps=chance.randint(20, 120),
        step_s=chance.choice((0.01, 0.02, 0.05)),
        every=chance.choice((1, 5, 10)),
        workers=chance.choice((1, 1, 1, 2, 3)),
        habits=habits,
        cancel_s=submit_s + chance.uniform(0.0, 6.0) if chance.random() < 0.15 else None,
    )


def _fault(chance: Random, faults: Mapping[str, int] = FAULTS, stages: Sequence[str] = STAGES) -> Fault:
    (kind,) = chance.choices(list(faults), weights=list(faults.values()))
    return Fault(
        kind=kind,
        stage=chance.choice(stages),
        wait_s=chance.uniform(0.0, 0.5),
        sightings=chance.randint(1, 3),
        for_s=chance.choice((0.0, 0.2, 1.0, 2.0, 4.5)),
    )
