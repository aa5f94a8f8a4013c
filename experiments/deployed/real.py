"""python -m experiments.deployed.real: real training jobs on real agents, preempted again and again.

Three agents on loopback declare a V100, a P100 and a K80; each job is slowed down to the speed that its device is
declared to have (`paced`), in the published proportions of its family and below what the processor can do, as
measured first. The jobs are those of `experiments.workloads`, with ``--quick``. Then it is checked that

    every job ended with its last step, which nobody did twice in two different ways
    its loss curve is that of an uninterrupted run, bit for bit, over all preemptions
    it received the time on devices that it was promised, within two rounds and a restart
    the books add up: devices, gangs, and the bill
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path

from experiments.deployed.audit import audit, seconds_by_type
from experiments.deployed.local import ROOT, DeployedError, LocalCluster, Machine, Progress, positive, run, say
from experiments.deployed.paced import DEVICE
from experiments.deployed.page import markdown, put, this_machine
from experiments.workloads.measure import WORKLOADS, measure
from gavelx.errors import UserError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.history import History
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_history
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration

TYPES = ("v100", "p100", "k80")
PRICES = Prices({"v100": 2.48, "p100": 1.46, "k80": 0.45}, "declared")
PUBLISHED = {
    "image_classification": "ResNet-18 (batch size 16)",
    "language_model": "LM (batch size 5)",
    "translation": "Transformer (batch size 16)",
    "recommendation": "Recommendation (batch size 512)",
    "cyclegan": "CycleGAN",
    "reinforcement": "A3C",
}
OF_MEASURED = 0.25
"""The fastest declared device is so much of the processor: three jobs at once leave room for restarts."""
STEPS_PER_S_MAX = 20.0
LENGTHS_S = (12.0, 18.0, 24.0)
"""On the device that suits a job best."""
RESTART_S = 5.0
"""What a restart takes at least; a busy machine imports torch for longer, and that is measured."""
TIMING = Timing(heartbeat_s=0.5, valid_for_s=20.0, grace_s=10.0)
QUICKLY = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LINE = re.compile(r"step (\d+) loss (\S+)")
Curve = dict[int, str]


@dataclass(frozen=True)
class Wanted:
    """A job: its workload, its seed, its steps, and how fast it is on each type of device."""

    workload: str
    seed: int
    steps: int
    steps_per_s: dict[str, float]

    @property
    def arguments(self) -> list[str]:
        """Of the workload, its name first; the steps too, since learning rates follow from them."""
        steps = ["--steps", str(self.steps)]
        return [self.workload, "--quick", "--seed", str(self.seed), "--print-every", "1", *steps]

    def spec(self) -> wire.JobSpec:
        speeds = ",".join(f"{name}={speed!r}" for name, speed in self.steps_per_s.items())
        return wire.JobSpec(
            job_type=self.workload,
            total_steps=self.steps,
            steps_per_s=self.steps_per_s,
            command=[sys.executable, "-m", "experiments.deployed.paced", speeds, *self.arguments],
        )

    def uninterrupted(self, folder: Path) -> Curve:
        """The loss curve of this job when nobody interrupts it, and nothing slows it down."""
        workload, *arguments = self.arguments
        folder.mkdir()
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", f"experiments.workloads.{workload}", *arguments],
            cwd=folder,
            env=os.environ | QUICKLY | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DeployedError(f"{self.workload} fails by itself: {done.stderr[-1000:]}")
        return curve_of(done.stdout)


def curve_of(text: str) -> Curve:
    """Loss by step, with all digits. Raises :class:`DeployedError` where a step that was done again is another."""
    curve: Curve = {}
    for step, loss in LINE.findall(text):
        if curve.setdefault(int(step), loss) != loss:
            raise DeployedError(f"step {step} was done twice, with losses {curve[int(step)]} and {loss}")
    return curve


@dataclass(frozen=True)
class Found:
    """What became of one job. ``problems`` is empty where everything was as it should be."""

    job_id: int
    workload: str
    steps: int
    launches: int
    preemptions: int
    held_s: dict[str, float]
    promised_s: float
    received_s: float
    jct_s: float
    loss: str
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ran:
    """A run under one policy."""

    policy: str
    round_s: float
    makespan_s: float
    usd: float
    jobs: list[Found]
    problems: list[str]

    @property
    def wrong(self) -> list[str]:
        return [f"{self.policy}: {problem}" for problem in self.problems] + [
            f"{self.policy}: job {job.job_id}, {job.workload}: {problem}"
            for job in self.jobs
            for problem in job.problems
        ]


@dataclass(frozen=True)
class Declared:
    """How fast a workload is on each type of device, and what stopping and starting it takes."""

    steps_per_s: dict[str, float]
    overhead: Overhead


def declare(workload: str, types: Sequence[str], steps_per_s: float | None = None) -> Declared:
    """Speeds in the published proportions; the fastest does so many steps/s, or a part of what is measured."""
    table, overhead = load_throughputs("simulation"), Overhead()
    if steps_per_s is None:
        say(f"measuring {workload}")
        (known,) = (one for one in WORKLOADS if one.module == workload)
        measured = measure(known, ["--quick"], 2, 30)
        steps_per_s = min(STEPS_PER_S_MAX, OF_MEASURED * measured.steps_per_s)
        overhead = Overhead(measured.checkpoint_s, measured.restart_s)
    published = {name: table.get(PUBLISHED[workload], name, 1) or 0.0 for name in types}
    fastest = max(published.values())
    return Declared({name: round(steps_per_s * speed / fastest, 3) for name, speed in published.items()}, overhead)


def jobs_wanted(count: int, declared: Mapping[str, Declared], longer: float = 1.0) -> list[Wanted]:
    """So many jobs of these workloads in turn, each with a seed of its own."""
    wanted = []
    for n, workload in zip(range(count), cycle(declared), strict=False):
        speeds = declared[workload].steps_per_s
        length_s = LENGTHS_S[n % len(LENGTHS_S)] * longer
        wanted.append(Wanted(workload, n, max(2, round(length_s * max(speeds.values()))), speeds))
    return wanted


async def train(
    wanted: Sequence[Wanted], policy: str, types: Sequence[str], rules: Rules, folder: Path
) -> list[str]:
    """Submit all jobs and wait until they are over; what each printed. Raises :class:`DeployedError`."""
    configuration = Configuration(load_throughputs("simulation"), PRICES, rules, refine=False)
    async with LocalCluster(folder, configuration, policy, TIMING) as cluster:
        await cluster.join(
            *(Machine(f"agent-{name}", name, environment={DEVICE: name} | QUICKLY) for name in types)
        )
        job_ids = await cluster.submit(*(one.spec() for one in wanted))
        jobs = await cluster.until_ended(1800.0, Progress(policy, len(wanted)))
        if bad := [job for job in jobs if job.state != "complete"]:
            last = (await cluster.output(bad[0].job_id))[-1000:]
            raise DeployedError(f"job {bad[0].job_id} {bad[0].state}: {bad[0].reason}; it printed: {last}")
        return [await cluster.output(job_id) for job_id in job_ids]


def examine(
    wanted: Sequence[Wanted], curves: Sequence[Curve], printed: Sequence[str], log: str, policy: str
) -> Ran:
    """Everything that must hold of a run."""
    state, history = read_history(log)
    books = audit(
        history,
        [known.job for known in state.jobs.values()],
        [one.server for one in state.machines.values()],
        PRICES,
    )
    problems = []
    billed = sum(known.spent_usd for known in state.jobs.values())
    if abs(billed - books.usd) > 1e-6 * books.usd:
        problems.append(f"${billed} are billed, and the devices were held for ${books.usd}")
    found = [
        _found(job_id, one, curve, text, state, history)
        for job_id, (one, curve, text) in enumerate(zip(wanted, curves, printed, strict=True))
    ]
    if not any(job.preemptions for job in found):
        problems.append("nobody was ever preempted")
    return Ran(
        policy=policy,
        round_s=state.mechanism.rules.round_s,
        makespan_s=max(known.ended_s for known in state.jobs.values())
        - min(known.job.arrival_s for known in state.jobs.values()),
        usd=books.usd,
        jobs=found,
        problems=problems,
    )


def _found(  # noqa: PLR0917
    job_id: int, one: Wanted, curve: Curve, text: str, state: State, history: History
) -> Found:
    known, leases, problems = state.jobs[job_id], history.of(job_id), []
    try:
        mine = curve_of(text)
    except DeployedError as error:
        mine = {}
        problems.append(str(error))
    if mine and (max(mine), known.steps_done) != (one.steps, one.steps):
        problems.append(
            f"{one.steps} steps were wanted; the last was {max(mine)}, {known.steps_done} are credited"
        )
    if mine and mine != curve:
        wrong = min(step for step in mine.keys() | curve.keys() if mine.get(step) != curve.get(step))
        seen = f"{mine.get(wrong)}, and {curve.get(wrong)} without interruptions"
        problems.append(f"the loss of step {wrong} is {seen}")
    owed_s = known.promised_s - known.received_s
    rules = state.mechanism.rules
    if owed_s > 2 * rules.round_s + max(RESTART_S, rules.overheads.default.restart_s):
        problems.append(f"{known.promised_s:.1f} s were promised and {known.received_s:.1f} s received")
    return Found(
        job_id=job_id,
        workload=one.workload,
        steps=one.steps,
        launches=known.launches,
        preemptions=sum(held.stopped and held.steps_done < one.steps for held in leases),
        held_s=dict(seconds_by_type(leases)),
        promised_s=known.promised_s,
        received_s=known.received_s,
        jct_s=known.ended_s - known.job.arrival_s,
        loss=mine.get(one.steps, ""),
        problems=problems,
    )


def table(ran: Ran, types: Sequence[str]) -> str:
    """In Markdown."""
    titles = (
        *("job", "workload", "steps", "launches", "preempted", *(f"on {name}, s" for name in types)),
        *("promised, s", "received, s", "share promised", "share received", "last loss"),
    )
    rows = [
        (
            *(str(job.job_id), job.workload, str(job.steps), str(job.launches), str(job.preemptions)),
            *(f"{job.held_s.get(name, 0.0):.1f}" for name in types),
            *(f"{job.promised_s:.1f}", f"{job.received_s:.1f}"),
            *(f"{job.promised_s / job.jct_s:.0%}", f"{job.received_s / job.jct_s:.0%}", f"`{job.loss}`"),
        )
        for job in ran.jobs
    ]
    verdict = "everything as it should be" if not ran.wrong else "; ".join(ran.wrong)
    facts = f"rounds of {ran.round_s:g} s, makespan {ran.makespan_s:.0f} s, bill ${ran.usd:.4f}: {verdict}."
    return f"`{ran.policy}`, {facts}\n\n{markdown(titles, rows, left=2)}"


def deploy(wanted: Sequence[Wanted], policies: Sequence[str], types: Sequence[str], rules: Rules) -> list[Ran]:
    """Run the jobs once alone, then under each policy. Raises :class:`DeployedError`."""
    ran = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        curves = []
        for n, one in enumerate(wanted):
            say(f"uninterrupted: {n + 1} of {len(wanted)}, {one.workload}")
            curves.append(one.uninterrupted(folder / f"alone-{n}"))
        for n, policy in enumerate(policies):
            here = folder / str(n)
            printed = run(train(wanted, policy, types, rules, here))
            ran.append(examine(wanted, curves, printed, str(here / "log"), policy))
    return ran


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all is as it should be, 1 if something is not, 2 for a wrong option."""
    options = _parser().parse_args(argv)
    types = TYPES[: options.agents]
    try:
        for policy in options.policies:
            load_policy(policy)
        declared = {name: declare(name, types, options.steps_per_s) for name in options.workloads}
        wanted = jobs_wanted(options.jobs, declared, options.longer)
        found = deploy(wanted, options.policies, types, _rules(options.round, declared))
    except UserError as error:
        say(f"error: {error}")
        return 2
    except DeployedError as error:
        say(f"failed: {error}")
        return 1
    text = "\n".join(table(ran, types) for ran in found)
    figures = {
        "declared": {name: asdict(one) for name, one in declared.items()},
        "runs": [asdict(ran) | {"wrong": ran.wrong} for ran in found],
    }
    print(json.dumps(figures, indent=2) if options.json else text)
    if options.write:
        put("real", sys.argv[1:] if argv is None else argv, _declared(declared) + text + this_machine(), figures)
    for problem in (wrong := [problem for ran in found for problem in ran.wrong]):
        say(f"wrong: {problem}")
    return 1 if wrong else 0


def _rules(round_s: float, declared: Mapping[str, Declared]) -> Rules:
    """Ours, told what a preemption costs: as much as that of the slowest workload."""
    worst = Overhead(*map(max, zip(*(one.overhead for one in declared.values()), strict=True)))
    return replace(DEFAULT, round_s=round_s, overheads=Overheads(worst))


def _declared(declared: Mapping[str, Declared]) -> str:
    titles = ("declared, steps/s", *next(iter(declared.values())).steps_per_s, "restart, s", "checkpoint, s")
    rows = [
        (
            *(name, *(f"{speed:g}" for speed in one.steps_per_s.values())),
            *(f"{one.overhead.restart_s:.1f}", f"{one.overhead.checkpoint_s:.3f}"),
        )
        for name, one in declared.items()
    ]
    return markdown(titles, rows, left=1) + "\n"


def _parser() -> argparse.ArgumentParser:
    names = list(PUBLISHED)
    parser = argparse.ArgumentParser(
        prog="python -m experiments.deployed.real",
        description=(__doc__ or "").partition("\n")[0].partition(": ")[2],
    )
    parser.add_argument("--jobs", type=int, choices=range(1, 101), metavar="N", default=12)
    parser.add_argument("--agents", type=int, choices=(1, 2, 3), default=3, help=f"of {', '.join(TYPES)}")
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--policies", nargs="+", default=["max_min_fairness", "finish_time_fairness"])
    parser.add_argument("--round", type=positive, default=10.0, help="seconds")
    parser.add_argument(
        "--steps-per-s", type=positive, help="of each job on its fastest device, instead of measuring"
    )
    parser.add_argument("--longer", type=positive, default=1.0, help="jobs that are so many times as long")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="put table and figures beside this file")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
