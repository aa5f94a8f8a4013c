"""A simulation as a generator of questions is the same simulation, and the slot model the same in arrays."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.policies import load_policy
from gavelx.policies.choices import Choices
from gavelx.simulator import simulate
from gavelx.simulator.asked import asked
from gavelx.slots.model import NONE, Sizes, Slots, play
from gavelx.throughputs import Setting, Throughputs

TYPES, ROUND_S = ("a", "b"), 100.0
RULES = replace(DEFAULT, round_s=ROUND_S, backfill=None)
CLUSTER = Cluster.of({"a": 4, "b": 2}, 4)
WIDTHS = (1, 2, 4)


@dataclass(frozen=True)
class Case:
    """Jobs of up to three types, and a seed from which their sizes are drawn in each slot."""

    speeds: tuple[tuple[float, ...], ...]
    jobs: tuple[Job, ...]
    seed: int

    @property
    def table(self) -> Throughputs:
        settings = {
            Setting(f"m{t}", name, width): float(np.prod(speed_V[: v + 1])) * (1.0 if name == "a" else 0.4)
            for t, speed_V in enumerate(self.speeds)
            for name in TYPES
            for v, width in enumerate(WIDTHS)
        }
        return Throughputs(settings, name="drawn")

    def wants(self, slot: int, ids: list[int]) -> dict[int, tuple[str, int]]:
        """Which of these jobs runs where in a slot: drawn, and within the devices that there are."""
        free, found = {"a": 4, "b": 2}, dict[int, tuple[str, int]]()
        random = np.random.default_rng([self.seed, slot])
        for job_id in random.permutation(ids).tolist():
            name, width = str(random.choice(TYPES)), int(random.choice(WIDTHS))
            if width <= free[name]:
                free[name] -= width
                found[job_id] = (name, width)
        return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    speeds = draw(st.lists(st.tuples(*[st.floats(1.1, 2.0)] * 3), min_size=1, max_size=3))
    jobs = [
        Job(
            job_id,
            f"m{draw(st.integers(0, len(speeds) - 1))}",
            total_steps=draw(st.floats(10.0, 900.0)),
            arrival_s=ROUND_S * draw(st.integers(0, 4)),
            elastic=Elastic("workers", 1, 4),
        )
        for job_id in range(draw(st.integers(1, 4)))
    ]
    return Case(tuple(speeds), tuple(jobs), draw(st.integers(0, 1000)))


def by_simulator(case: Case) -> np.ndarray:
    """Completion times where devices change hands at the beginning of a slot alone."""
    run = asked(case.jobs, CLUSTER, case.table, rules=RULES, opens=frozenset({"sizes"}))
    wanted: dict[int, dict[int, tuple[str, int]]] = {}
    for snapshot in run:
        slot = int((snapshot.time_s + 1e-6) // ROUND_S)
        choices = Choices.of(snapshot.open("sizes"))
        at = wanted.setdefault(slot, case.wants(slot, sorted(job.id for job in snapshot.jobs)))
        named = [(snapshot.jobs[j].id, (TYPES[a], width)) for j, a, width, _ in choices.sizes()]
        chosen_V = np.array([at.get(job_id) == size for job_id, size in named], dtype=bool)
        execution = Execution(backfill=False, whole_devices=True, refresh_s=(slot + 1) * ROUND_S - snapshot.time_s)
        run.answer(choices.allocation(chosen_V, execution, path="drawn", seconds=0.0))
    by_id = dict(zip([job.id for job in run.result.jobs], run.result.completion_s_J.tolist(), strict=True))
    return np.array([by_id[job.id] for job in case.jobs])


def by_slots(case: Case) -> np.ndarray:
    """The same in the slot model."""
    ways = [(name, width) for name in TYPES for width in WIDTHS]
    speed_NV = np.array([[case.table.isolated[Setting(job.job_type, *way)] for way in ways] for job in case.jobs])
    use_VR = np.array([[width * (name == at) for at in TYPES] for name, width in ways], dtype=float)
    sizes = Sizes(np.broadcast_to(use_VR, (*speed_NV.shape, 2)), speed_NV)
    J = len(case.jobs)
    slots = Slots.of(
        sizes,
        np.array([4.0, 2.0]),
        np.arange(J)[None, :],
        np.array([[job.total_steps for job in case.jobs]]),
        arrival_s_KJ=np.array([[job.arrival_s for job in case.jobs]]),
    )

    def schedule(seen: Slots) -> np.ndarray:
        at = case.wants(round(seen.time_s / ROUND_S), sorted(seen.kind_KJ[seen.live_KJ].tolist()))
        return np.array([[ways.index(at[j]) if j in at else NONE for j in seen.kind_KJ[0].tolist()]])

    return play(slots, schedule, ROUND_S).done_s_KJ[0]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cases())
def test_on_the_same_sizes_the_slot_model_is_the_simulator(case: Case) -> None:
    np.testing.assert_allclose(by_slots(case), by_simulator(case), rtol=1e-9)


def some_jobs() -> list[Job]:
    return [
        Job(n, "m0", total_steps=500.0 * (n + 1), scale_factor=1 + n % 2, arrival_s=70.0 * n) for n in range(8)
    ]


TABLE = Throughputs({Setting("m0", name, width): float(width) for name in TYPES for width in WIDTHS}, name="t")


@pytest.mark.parametrize("name", ["fifo", "max_min_fairness", "srtf"])
def test_the_same_answers_make_the_same_run(name: str) -> None:
    policy, run = load_policy(name), asked(some_jobs(), CLUSTER, TABLE)
    for snapshot in run:
        run.answer(policy.allocate(snapshot))
    simulated = simulate(policy, some_jobs(), CLUSTER, TABLE)
    np.testing.assert_array_equal(run.result.completion_s_J, simulated.completion_s_J)
    assert len(run.result.leases.job_L) == len(simulated.leases.job_L)


def test_answers_are_checked() -> None:
    run = asked(some_jobs(), CLUSTER, TABLE)
    snapshots = iter(run)
    next(snapshots)
    run.answer(None)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="NoneType"):
        next(snapshots)


def test_a_snapshot_wants_an_answer() -> None:
    with pytest.raises(AssertionError, match="wants an answer"):
        for _ in asked(some_jobs(), CLUSTER, TABLE):
            pass
