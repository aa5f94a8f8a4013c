"""What is paid for a lease on several servers that its job has gone over from while it ran."""

from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism.events import JobSubmitted, LeaseEnded, PolicyChanged, Resized
from gavelx.mechanism.rules import DEFAULT
from gavelx.policies import load_policy
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.store.records import Entry
from tests.service.running import run
from tests.service.test_roll_back import SPEC, Elastically


class GoingOver(Elastically):
    """A job has a device of each of three servers, whose clocks are apart, and is to go over to two of them."""

    clock_s = 100.0, 5000.0, 0.5

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(range(1, 4))
        for module in ("registry", "resizes"):
            clock = SimpleNamespace(monotonic=lambda: self.now_s)
            patch.setattr(f"gavelx.service.agents.{module}.time", clock)

    async def begin(self) -> None:
        self.agents = [await self.agent(name, 1) for name in ("one", "two", "three")]
        self.session, _ = self.agents[0]
        self._apply([Entry(PolicyChanged(0.0, load_policy(self.policy).opens), {"policy": self.policy})])
        job = Job(0, "net", 1e6, elastic=Elastic.of("workers:1-3"))
        self._apply([Entry(JobSubmitted(0.0, job), SPEC)])
        self.wake()
        (self.first,) = self.state.runs.values()
        assert [part.server_id for part in self.first.parts] == [0, 1, 2]

    def is_to_go_over(self) -> None:
        """Another job comes."""
        self._apply([Entry(JobSubmitted(self.now_s, Job(1, "net", 1e6)), SPEC)])
        self.passes(60.0)
        assert self.first.continued_by is not None
        self.second = self.state.runs[self.first.continued_by]
        self.kept = [part.server_id for part in self.second.parts]
        (self.left,) = {0, 1, 2} - set(self.kept)

    def says(self, n: int, *reports: wire.LeaseReport, late_s: float = 0.0) -> None:
        """An agent sends a heartbeat, which is underway for so long."""
        self.now_s += late_s
        sent_s = self.clock_s[n] + self.now_s - late_s
        self.here.receive(*self.agents[n], wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=sent_s, leases=reports)))
        self.settle()

    def old(self, held_s: float, next_id: int | None = None) -> wire.LeaseReport:
        """A report on the lease from which the job is to go over."""
        lease_id = self.first.lease.id
        return wire.LeaseReport(lease_id=lease_id, steps_done=10.0, held_s=held_s, sizes=1, next_id=next_id)

    def goes_over(self, held_s: float, left_s: float) -> Resized:
        """The one server leaves, and rank 0 reports how long it had the lease when the job went over."""
        first, second, (rank_0, other) = self.first.lease.id, self.second.lease.id, self.kept
        ended = wire.Ended(report_id="left", lease_id=first, held_s=left_s, left=True)
        self.here.receive(*self.agents[self.left], wire.FromAgent(ended=ended))
        self.says(other, self.old(held_s, second), wire.LeaseReport(lease_id=second, sizes=1))
        over = wire.Handover(before_id=first, steps_done=20.0, held_s=held_s)
        self.says(
            rank_0,
            self.old(held_s, second),
            wire.LeaseReport(lease_id=second, steps_done=20.0, sizes=2, handover=over),
        )
        (resized,) = [entry.event for entry in self.log if isinstance(entry.event, Resized)]
        return resized


@pytest.mark.parametrize("begun_s", [(2.0, 2.0, 2.0), (2.0, 3.0, 4.0), (4.0, 2.0, 3.0), (3.0, 4.0, 2.0)])
def test_it_is_held_from_when_the_first_of_its_servers_begins_until_its_job_goes_over(
    begun_s: Iterable[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever stays: by their own clocks, and though some of their words are late."""

    async def main() -> None:
        desk = GoingOver(monkeypatch)
        await desk.begin()
        begun = list(begun_s)
        for late_s in (1.5, 0.0, 0.75):
            desk.now_s += 5.0
            for n in range(3):
                desk.says(n, desk.old(desk.now_s - begun[n]), late_s=late_s)
        desk.is_to_go_over()
        over_s = desk.now_s
        resized = desk.goes_over(over_s - begun[desk.kept[0]], over_s - begun[desk.left])
        assert (resized.before_id, resized.steps_done) == (desk.first.lease.id, 20.0)
        assert resized.held_s == pytest.approx(over_s - 2.0)

    run(main())


def test_it_is_not_held_while_processes_on_some_servers_get_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on the second took 3 s until their job had gone over to it, and the agent of the third heard late."""

    async def main() -> None:
        desk = GoingOver(monkeypatch)
        await desk.begin()
        desk.first.warm_s = 3.0
        for now_s in (8.0, 12.0):
            desk.now_s = now_s
            for n, begun_s in enumerate([10.0, 7.0, 11.0]):
                desk.says(n, desk.old(max(0.0, desk.now_s - begun_s)))
        desk.is_to_go_over()
        assert desk.kept == [0, 1]
        over_s = desk.now_s
        resized = desk.goes_over(over_s - 10.0, over_s - 11.0)
        assert resized.held_s == pytest.approx(over_s - 10.0)

    run(main())


@pytest.mark.parametrize(("other_s", "held_s"), [(5.0, 5.0), (6.5, 5.0), (7.0, 5.0), (9.0, 7.0)])
def test_the_lease_after_begins_when_rank_0_goes_over(
    other_s: float, held_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All took 2 s: what the other server had it for before rank 0 did, it was on the lease before."""

    async def main() -> None:
        desk = GoingOver(monkeypatch)
        await desk.begin()
        desk.now_s += 5.0
        for n in range(3):
            desk.says(n, desk.old(desk.now_s))
        desk.is_to_go_over()
        desk.now_s += 2.0
        desk.goes_over(desk.now_s, desk.now_s)
        for n, seconds in zip(desk.kept, (5.0, other_s), strict=True):
            ended = wire.Ended(
                report_id=f"{n}", lease_id=desk.second.lease.id, job_id=0, steps_done=40.0, held_s=seconds
            )
            desk.here.receive(*desk.agents[n], wire.FromAgent(ended=ended))
            desk.settle()
        (event,) = [entry.event for entry in desk.log if isinstance(entry.event, LeaseEnded)]
        assert event.held_s == pytest.approx(held_s)

    run(main())


@pytest.mark.parametrize("saves", [False, True])
def test_processes_that_leave_where_no_size_was_to_change_have_failed(saves: bool) -> None:
    """They exit as in a change of size: without a step forward the job is given up, and not launched for ever."""

    async def main() -> None:
        desk = Elastically(range(1, 9))
        await desk.begin()
        for n in range(1, DEFAULT.max_failures + 1):
            (lease,) = desk.leases()
            left = {"job_id": 0, "exit_code": 79, "left": True, "reason": "they left", "held_s": 1.0}
            ended = wire.Ended(report_id=f"{n}", lease_id=lease.lease.id, steps_done=10.0 * n * saves, **left)
            desk.here.receive(desk.session, desk.stream, wire.FromAgent(ended=ended))
            desk.settle()
            desk.passes(600.0)
        known = desk.state.jobs[0]
        assert (known.ended, known.failures) == (("", 0) if saves else ("failed", DEFAULT.max_failures))
        assert known.reason == "its processes left (79), and no change of its size asked them to"

    run(main())
