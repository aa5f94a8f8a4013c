"""What a job that waits, or runs again, is said to wait for."""

from gavelx.jobs import Job
from gavelx.mechanism.events import JobSubmitted, ServerOffers
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.explain import explained
from gavelx.service.api.waiting import Waiting
from gavelx.service.store.records import Entry
from tests.service.desk import Desk
from tests.service.running import run


def why(desk: Desk, job_id: int) -> str:
    return Waiting(desk.state).why(desk.state.mechanism.job(job_id), job_id)


def test_a_job_that_was_promised_devices_which_are_not_lent_any_more_waits_for_no_turn() -> None:
    """Before the next plan, and where it is one of those that are not preempted: no job holds any device."""

    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 2)
        job = Job(0, "net", 1e6, preemptible="no")
        desk._apply([Entry(JobSubmitted(0.0, job), {"command": ["true"]})])
        desk.wake()
        assert desk.state.mechanism.running() == 1
        desk._apply([Entry(ServerOffers(0.0, 0, 0, number=1))])
        words = "can run nowhere: it needs 1 devices of a type, and 0 are here at most"
        assert why(desk, 0) == words
        for run_ in list(desk.state.runs.values()):
            desk.state.runs.end(run_.lease.id)
        assert explained(desk.state, desk.here, 0, 0.0)["why"].startswith(words)

    run(main())


def test_a_job_that_a_server_could_not_start_says_so_when_it_is_launched_again() -> None:
    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease,) = desk.state.runs.values()
        reason = "this server cannot start it: No space left on device"
        ended = wire.Ended(report_id="1", lease_id=lease.lease.id, job_id=0, reason=reason, exit_code=126)
        desk.here.receive(session, stream, wire.FromAgent(ended=ended))
        desk.settle()
        desk.wake()
        document = explained(desk.state, desk.here, 0, 0.0)
        assert (document["state"], document["failures"]) == ("running", 0)
        assert document["why"].endswith(f"; its last lease ended: {reason}")

    run(main())
