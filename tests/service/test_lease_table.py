"""Leases are found by server and by job as by looking at all of them, whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from gavelx.configuration import Configuration
from gavelx.mechanism.commands import Device, Lease
from gavelx.service.state.leases import LeasePart, LeaseRecord, LeaseTable

SERVERS, JOBS = range(3), range(3)
ADD = st.tuples(st.just("add"), st.sampled_from(JOBS), st.sets(st.sampled_from(SERVERS), min_size=1))
END = st.tuples(st.just("end"), st.integers(0, 8), st.none())
LOSE = st.tuples(st.just("lose"), st.sampled_from(SERVERS), st.none())


def a_run(lease_id: int, job_id: int, servers: set[int]) -> LeaseRecord:
    devices = tuple(Device(server_id, 0) for server_id in sorted(servers))
    lease = Lease(
        lease_id,
        job_id,
        Configuration((job_id,), "v100", len(devices)),
        devices,
        until_s=1.0,
        until_step=1.0,
        charged_from_s=0.0,
    )
    return LeaseRecord(lease, [LeasePart(device.server_id, (0,), rank, 1) for rank, device in enumerate(devices)])


@given(st.lists(st.one_of(ADD, END, LOSE), max_size=20))
def test_the_indexes_agree_with_the_runs(story: list[tuple[str, int, set[int] | None]]) -> None:
    runs = LeaseTable()
    for lease_id, (what, number, servers) in enumerate(story):
        if what == "add":
            assert servers is not None
            runs.add(a_run(lease_id, number, servers))
        elif what == "end":
            runs.end(number)
        else:
            runs.lose(number)
        for server_id in SERVERS:
            parts = {i: run.on(server_id) for i, run in runs.items()}
            assert set(runs.on(server_id)) == {i for i, part in parts.items() if part and not part.over}
        for job_id in JOBS:
            of_job = [i for i, run in runs.items() if run.lease.job_id == job_id]
            assert list(runs.of(job_id)) == of_job
            latest = runs.latest_of(job_id)
            assert (latest.lease.id if latest else None) == max(of_job, default=None)
        assert all(any(not part.over for part in run.parts) for run in runs.values())
