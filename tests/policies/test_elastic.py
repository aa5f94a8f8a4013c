"""What ``elastic(p)`` promises of every program in the catalog, and what an answer in unknown sizes is told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.policies import Policy, catalog, elastic, load_policy
from gavelx.policies.program import Maximize
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.testing.snapshots import CONTESTED, snapshots
from gavelx.throughputs import Setting, Throughputs
from gavelx.ways_to_run import ways_to_run

PROGRAMS = [name for name in catalog() if isinstance(load_policy(name), Maximize)]
NEAR = 1e-6


def certified_gain(policy: Policy, answer: Allocation) -> float | None:
    """The certified objective, more being better; None where no job can run."""
    assert isinstance(policy, Maximize)
    value = answer.certificate.objective
    return None if value is None else policy.sign * value


def test_there_are_programs() -> None:
    assert {"max_min_fairness", "finish_time_fairness", "min_cost", "nash_welfare", "makespan"} < set(PROGRAMS)
    assert len(PROGRAMS) >= 11


def runnable(snapshot: Snapshot) -> set[int]:
    table = snapshot.configurations
    return set(table.job_M[snapshot.usable_C[table.configuration_M]].tolist())


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=8, deadline=None)
@given(snapshot=snapshots(**CONTESTED, extras=True))
def test_sizes_never_lower_the_certified_objective(name: str, snapshot: Snapshot) -> None:
    policy, opened = load_policy(name), snapshot.open("sizes")
    rigid, with_sizes = (p.allocate(snapshot) for p in (policy, elastic(policy)))
    before, after = certified_gain(policy, rigid), certified_gain(policy, with_sizes)
    if before is None or after is None:
        assert before is None  # the wider table has the narrower one in it
        return
    if name == "value_fair_share":
        return  # devices are worth more to owners in other sizes, and fair shares of that come first
    if runnable(snapshot) == runnable(opened):  # else sizes bring in jobs that were left out
        assert after >= before - NEAR * max(1.0, abs(before))
    share_C = np.zeros(len(opened.configurations))
    share_C[opened.configurations.own_C] = rigid.share_C
    same = policy.gain(opened, share_C)
    assert same is not None
    assert after >= same - NEAR * max(1.0, abs(same)) or np.isneginf(same)


@st.composite
def best_as_submitted(draw: st.DrawFn) -> Snapshot:
    """Elastic jobs that are slower a device on fewer devices, and no faster on more."""
    jobs, speeds = [], {}
    for j in range(draw(st.integers(1, 5))):
        own, most = draw(st.sampled_from((2, 3, 4))), draw(st.sampled_from((4, 8)))
        for name in ("v100", "k80"):
            speed = draw(st.floats(0.5, 20.0))
            steeper = draw(st.floats(1.0, 2.0))
            for n in range(1, most + 1):
                part = (n / own) ** steeper if n < own else draw(st.floats(0.3, 1.0)) if n > own else 1.0
                speeds[Setting(f"net-{j}", name, n)] = speed * part
        weight, steps = draw(st.sampled_from((1.0, 3.0))), draw(st.floats(1e2, 1e5))
        jobs.append(Job(j, f"net-{j}", steps, own, weight=weight, elastic=Elastic("workers", 1, most)))
    cluster = Cluster.of({"v100": draw(st.integers(1, 8)), "k80": draw(st.integers(1, 8))})
    assume(max(job.scale_factor for job in jobs) <= min(cluster.devices_A))
    snapshot = Snapshot.of(jobs, cluster, Throughputs(speeds), sizes=True)
    return snapshot.replace(usd_per_hour_A=np.array([0.5, 3.0]))


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=10, deadline=None)
@given(snapshot=best_as_submitted())
def test_sizes_change_nothing_where_own_sizes_are_best(name: str, snapshot: Snapshot) -> None:
    assert len(snapshot.open("sizes").configurations) > len(snapshot.configurations)  # smaller ones are offered
    policy = load_policy(name)
    rigid, with_sizes = (certified_gain(policy, p.allocate(snapshot)) for p in (policy, elastic(policy)))
    assert with_sizes == pytest.approx(rigid, rel=NEAR, abs=NEAR)


# -- planted faults -------------------------------------------------------------------------------------------

TABLE = Throughputs({Setting("net", "v100", n): 10.0 * n**0.8 for n in (1, 2, 4, 8)})


def two_jobs() -> Snapshot:
    jobs = [Job(j, "net", 1e4, 2, elastic=Elastic("workers", 1, 8)) for j in range(2)]
    return Snapshot.of(jobs, Cluster.of({"v100": 8}), TABLE, sizes=True)


class Answers(Policy):
    """A user's policy that answers with a table of its own, in equal shares."""

    uses = frozenset({"sizes"})  # type: ignore[assignment]

    def __init__(self, **changes: object) -> None:
        self.changes = changes

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = replace(snapshot.known, **self.changes)  # type: ignore[arg-type]
        other = snapshot.replace(known=table)
        return certified(other, np.full(len(other.configurations), 0.01), path="by hand", seconds=0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"devices_C": np.array([2, 1, 4, 7, 2, 1, 4, 8])},
        {"devices_C": np.array([2, 1, 4, 16, 2, 1, 4, 8])},
        {"batch_C": np.array([0, 0, 0, 0, 0, 0, 64, 0])},
        {"own_C": np.array([False, True, False, False, True, False, False, False])},
        {"own_C": np.ones(8, dtype=bool)},
        {"throughput_M": np.full(8, 10.0)},
    ],
    ids=["7 devices", "16 devices", "another batch", "another own size", "all sizes its own", "other speeds"],
)
def test_an_answer_in_sizes_that_are_not_offered_is_one_message(changes: dict[str, object]) -> None:
    with pytest.raises(PolicyError) as found:
        ask(elastic(Answers(**changes)), two_jobs())
    said = str(found.value)
    assert "\n" not in said
    assert "job 0 (net) on" in said or "job 1 (net) on" in said
    assert "offers: job" in said
    assert "on 2 x v100 at 17.4" in said
    assert "or 1, 4 or 8 devices" in said


def test_a_planted_wrong_own_row_is_found_in_any_table() -> None:
    table = ways_to_run(two_jobs().jobs, ["v100"], TABLE, sizes=True)
    assert table.misjudged() is None
    for c in np.flatnonzero(table.own_C):
        for other in range(len(table)):
            if table.job_M[other] == table.job_M[c] and other != c:
                own_C = table.own_C.copy()
                own_C[other] = True  # a second one
                assert replace(table, own_C=own_C).misjudged() is not None
        own_C = table.own_C.copy()
        own_C[c] = False  # none
        assert replace(table, own_C=own_C).misjudged() is not None
