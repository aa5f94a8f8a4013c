"""What a job that waits, or runs again, is said to wait for."""

import pytest

from gavelx.errors import UserError
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.events import JobSubmitted, ServerOffers
from gavelx.mechanism.reservation import Reservation
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_spec, note_of
from gavelx.service.api.explain import explained
from gavelx.service.api.status import Asked
from gavelx.service.api.status import _job as job_status
from gavelx.service.api.waiting import Waiting
from gavelx.service.store.records import Entry
from tests.service.agents import configuration
from tests.service.desk import Desk
from tests.service.running import run


def why(desk: Desk, job_id: int) -> str:
    return Waiting(desk.state, desk.now_s).why(desk.state.mechanism.job(job_id), job_id)


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


def test_a_waiting_job_names_who_is_further_behind_only_where_one_is() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        desk.submit(1e6, 1e6, 1e6)
        desk.wake()
        (running,) = desk.state.mechanism.leasing.leases
        waiting = sorted({0, 1, 2} - {running})
        for job_id in waiting:
            assert why(desk, job_id).endswith(f"no v100 is free (job {running} runs there)"), "all are alike"
        live = desk.state.mechanism.live
        live.promised_s[live.index[waiting[0]]] += 100.0
        assert why(desk, waiting[1]).endswith(f"and job {waiting[0]} is further behind")
        assert "further behind" not in why(desk, waiting[0])

    run(main())


def test_jobs_on_devices_that_a_job_cannot_use_are_not_its_reason() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        await desk.agent("two", 1, accelerator="a100")
        table = {"a100": 1.0}
        for job_type in ("net~here", "net~there"):
            job = Job(desk.state.next_job_id, job_type, 1e6)
            speeds = {"v100": 1.0} if job_type == "net~here" else table
            desk._apply([Entry(JobSubmitted(0.0, job), {"command": ["true"], "speeds": speeds})])
        job = Job(desk.state.next_job_id, "net~here", 1e6)
        desk._apply([Entry(JobSubmitted(0.0, job), {"command": ["true"]})])
        desk.wake()
        waiting = [i for i in (0, 2) if i not in desk.state.mechanism.leasing.leases]
        live = desk.state.mechanism.live
        live.promised_s[live.index[1]] += 100.0
        words = why(desk, waiting[0])
        assert words.endswith(f"no v100 is free (job {2 - waiting[0]} runs there)"), words

    run(main())


class TriesLater(Desk):
    """A desk that waits before it launches a failed job again, as services do."""

    made_with = configuration(DEFAULT)


def test_a_failed_job_says_when_it_is_tried_again() -> None:
    async def main() -> None:
        desk = TriesLater()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease,) = desk.state.runs.values()
        ended = wire.Ended(report_id="1", lease_id=lease.lease.id, job_id=0, failed=True, exit_code=1, reason="no")
        desk.here.receive(session, stream, wire.FromAgent(ended=ended))
        desk.settle()
        again_s = desk.state.mechanism.failures.until_s(0)
        assert again_s > 0
        assert f"it is tried again in {again_s:,.0f} s" in why(desk, 0)

    run(main())


def test_a_job_that_hangs_says_so_in_status_and_explain() -> None:
    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (run_,) = desk.state.runs.values()
        for n, (silent_s, words) in enumerate([(95.0, "no step for 95 s (usually 1 s)"), (0.0, "")]):
            report = wire.LeaseReport(lease_id=run_.lease.id, job_id=0, steps_done=7.0, silent_s=silent_s)
            report.usual_step_s = 1.0
            beat = wire.Heartbeat(sent_s=2.0 + n, leases=[report])
            desk.here.receive(session, stream, wire.FromAgent(heartbeat=beat))
            message = job_status(desk.state, desk.here, 0, 0.0, Asked(desk.state, [0], 0.0))
            assert (message.state, message.silent_s, message.usual_step_s) == ("running", silent_s, 1.0)
            document = explained(desk.state, desk.here, 0, 0.0)
            assert (f"it runs, but made {words}" in document["why"]) == bool(words)
            assert document.get("silent_s", 0.0) == silent_s
            assert desk.here.progress.silent() == bool(words)

    run(main())


def test_how_long_a_job_may_be_silent_reaches_its_agent() -> None:
    async def main() -> None:
        desk = Desk()
        spec = wire.JobSpec(command=["true"], restart_if_silent_s=120.0)
        check_spec(spec)
        _, stream = await desk.agent("one", 1)
        desk._apply([Entry(JobSubmitted(0.0, Job(0, "net", 1e6)), note_of(spec))])
        desk.wake()
        said = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
        launches = [one.launch for one in said if one is not None and one.HasField("launch")]
        assert [launch.restart_if_silent_s for launch in launches] == [120.0]
        with pytest.raises(UserError, match="restart_if_silent_s is -1"):
            check_spec(wire.JobSpec(command=["true"], restart_if_silent_s=-1.0))

    run(main())


def test_who_waits_for_held_devices_says_for_whom_and_for_which_jobs() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 2)
        note = note_of(wire.JobSpec(command=["true"]))
        desk.submit(1e6)
        desk._apply([Entry(JobSubmitted(0.0, Job(job_id, "net", 1e6, scale_factor=2)), note) for job_id in (1, 2)])
        desk.wake()
        running = [lease.job_id for lease in desk.state.mechanism.leasing.leases.values()]
        assert running == [0]
        desk.state.mechanism.reserved = Reservation(1, 0, 2, 0.0)
        assert why(desk, 1) == "2 v100 are held for it as they fall free; it waits for job 0"
        assert why(desk, 2) == "free v100 are held for job 1, which is further behind"

    run(main())
