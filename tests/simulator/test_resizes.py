"""Jobs that change their size while they run: when, at what cost, and what becomes of the steps."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event
from gavelx.mechanism.rules import Rules
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.faults import Faults
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

TABLE = Throughputs({Setting("net", "v100", n): speed for n, speed in ((1, 10.0), (2, 18.0), (4, 30.0))})
RIGID = Job(2, "net", 18.0 * 1000.0, 2)  # 1,000 s on its two devices
ELASTIC = Job(1, "net", 100_000.0, 2, elastic=Elastic("workers", 1, 4))
PAUSED = Rules("default", overheads=Overheads(Overhead(20.0, 60.0, 5.0)))
RESTARTED = replace(PAUSED, overheads=Overheads(Overhead(20.0, 60.0)))


def run(rules: Rules, *jobs: Job, faults: Faults | None = None) -> Result:
    policy, cluster = load_policy("elastic(max_min_fairness)"), Cluster.of({"v100": 4})
    with_faults = {"faults": faults} if faults is not None else {}
    return simulate(policy, jobs, cluster, TABLE, Prices({"v100": 3.6}), rules=rules, **with_faults)


def test_a_job_grows_without_a_restart_when_devices_fall_free() -> None:
    result = run(PAUSED, ELASTIC, RIGID)
    (grows,) = [r for r in range(len(result.leases)) if result.leases.resized_L[r]]
    assert result.restarts_J.tolist() == [0, 0]
    assert result.leases.devices_L[grows] == 4
    over_s = result.leases.start_s_L[grows]
    asked_s = 1080.0  # the round after the other job's end, at 1,000 s
    assert over_s == pytest.approx(asked_s + 60.0)  # as long as a start takes, the job runs on as it was
    left = ELASTIC.total_steps - 18.0 * over_s
    assert result.completion_s_J[0] == pytest.approx(over_s + 5.0 + left / 30.0)


def test_new_devices_are_paid_for_while_they_get_ready() -> None:
    result = run(PAUSED, ELASTIC, RIGID)
    end_s = float(result.completion_s_J[0])
    device_s = 2 * 1140.0 + 2 * 60.0 + 4 * (end_s - 1140.0) + 2 * 1000.0
    assert result.cost_usd_J.sum() == pytest.approx(device_s * 3.6 / 3600.0)


def test_a_job_that_cannot_is_restarted_in_its_new_size() -> None:
    result = run(RESTARTED, ELASTIC, RIGID)
    assert result.resizes_J.tolist() == [0, 0]
    assert result.restarts_J.tolist() == [1, 0]
    asked_s = 1080.0
    left = ELASTIC.total_steps - 18.0 * asked_s
    assert result.completion_s_J[0] == pytest.approx(asked_s + 20.0 + 60.0 + left / 30.0)


def test_a_job_shrinks_for_another_at_once() -> None:
    late = replace(RIGID, arrival_s=1000.0)
    result = run(PAUSED, ELASTIC, late)
    assert result.resizes_J.tolist() == [2, 0]  # and grows again
    assert result.restarts_J.tolist() == [0, 0]
    assert result.start_s_J[1] == pytest.approx(1080.0)


@pytest.mark.parametrize(
    ("resize_s", "asked_s"), [(5.0, 1080.0), (400.0, 1080.0), (500.0, 1440.0), (1000.0, 2520.0)]
)
def test_a_change_that_costs_more_than_it_gains_in_as_long_as_the_job_has_its_size_is_left(
    resize_s: float, asked_s: float
) -> None:
    """Four devices gain 0.4 of the time on two, on which the job has been since 0 s; they are free at 1,080 s."""
    slow = replace(PAUSED, overheads=Overheads(Overhead(20.0, 60.0, resize_s)))
    result = run(slow, ELASTIC, RIGID)
    assert result.resizes_J.tolist() == [1, 0]
    (grows,) = [r for r in range(len(result.leases)) if result.leases.resized_L[r]]
    assert result.leases.start_s_L[grows] == pytest.approx(asked_s + 60.0)


@pytest.mark.parametrize(("left_s", "resizes"), [(50.0, 0), (70.0, 0), (72.0, 0), (73.0, 1), (200.0, 1)])
def test_a_job_that_is_about_to_be_done_does_not_change_its_size(left_s: float, resizes: int) -> None:
    """At 1,080 s new devices get ready for 60 s; of what is left then four devices gain 0.4, and it costs 5 s."""
    short = replace(ELASTIC, total_steps=18.0 * (1080.0 + left_s))
    result = run(PAUSED, short, RIGID)
    assert result.resizes_J.tolist() == [resizes, 0]
    assert result.completion_s_J[0] <= 1080.0 + left_s


def test_a_restart_into_a_larger_size_pays_as_well() -> None:
    """It costs a checkpoint and a restart, 80 s, and gains 0.4 of what is left."""
    for left_s, restarts in ((190.0, 0), (210.0, 1)):
        short = replace(ELASTIC, total_steps=18.0 * (1080.0 + left_s))
        result = run(RESTARTED, short, RIGID)
        assert result.restarts_J.tolist() == [restarts, 0]
        assert result.completion_s_J[0] <= 1080.0 + left_s


def test_a_job_that_is_not_elastic_keeps_its_size() -> None:
    rigid = replace(ELASTIC, elastic=None)
    plain = run(replace(DEFAULT, overheads=Overheads(Overhead(20.0, 60.0))), rigid, RIGID)
    result = run(PAUSED, rigid, RIGID)
    assert result.completion_s_J.tolist() == plain.completion_s_J.tolist()
    assert "resizes" not in result.summary()


def test_a_failed_resize_is_a_restart_from_the_last_checkpoint() -> None:
    """Servers fail every few minutes, in pauses too; what was saved is never lost, and no step counts twice."""
    faults = Faults(
        seed=3, server_failures_per_day=100.0, outage_s=300.0, checkpoint_every_s=100.0, until_s=9000.0
    )
    result = run(PAUSED, ELASTIC, RIGID, faults=faults)  # the ledger checks every step
    assert not result.unfinished
    assert result.restarts_J[0] > 0


@pytest.mark.parametrize("rules", [PAUSED, RESTARTED], ids=["resized", "restarted"])
def test_what_the_mechanism_believes_is_what_was_held_and_paid(rules: Rules) -> None:
    held_s, usd = dict[int, float](), dict[int, float]()

    class Watched:
        """The simulated cluster; the accounts of all jobs are noted after each event."""

        def __init__(self, mechanism: Mechanism, backend: SimulatedCluster) -> None:
            self.mechanism, self.backend = mechanism, backend

        @property
        def now_s(self) -> float:
            return self.backend.now_s

        def events(self) -> Iterator[Event]:
            for event in self.backend.events():
                yield event
                live = self.mechanism.live
                for job, held, paid in zip(live.jobs, live.held_s.tolist(), live.spent_usd.tolist(), strict=True):
                    assert held <= self.now_s + 1e-6, f"job {job.id} held more than there was time for: {event}"
                    held_s[job.id], usd[job.id] = held, paid

        def execute(self, command: Command) -> None:
            self.backend.execute(command)

        def post(self, event: Event) -> None:
            self.backend.post(event)

    policy, cluster = load_policy("elastic(max_min_fairness)"), Cluster.of({"v100": 4})
    jobs, prices = (ELASTIC, RIGID), Prices({"v100": 3.6})
    result = simulate(policy, jobs, cluster, TABLE, prices, rules=rules, watch=Watched)
    assert [usd[job.id] for job in result.jobs] == pytest.approx(result.cost_usd_J.tolist())
    end_s = result.completion_s_J.tolist()
    assert [held_s[job.id] for job in result.jobs] == pytest.approx(end_s)  # both run all the time


@pytest.mark.parametrize(("name", "devices"), [("fifo", 4), ("srtf", 4), ("optimus", 4)])
def test_what_is_left_goes_to_those_who_can_use_it(name: str, devices: int) -> None:
    snapshot = Snapshot.of([ELASTIC], Cluster.of({"v100": 4}), TABLE, sizes=True)
    promised = load_policy(f"elastic({name})").allocate(snapshot).promises().configurations
    assert promised.devices.tolist() == [devices]


def test_a_job_begins_in_what_is_free() -> None:
    """On three devices the rigid job has two, and the elastic one begins on the third."""
    snapshot = Snapshot.of([replace(RIGID, id=0), ELASTIC], Cluster.of({"v100": 3}), TABLE, sizes=True)
    promised = load_policy("elastic(fifo)").allocate(snapshot).promises().configurations
    assert dict(zip(promised.job.tolist(), promised.devices.tolist(), strict=True)) == {0: 2, 1: 1}
