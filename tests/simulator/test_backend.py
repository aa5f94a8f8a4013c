"""The simulated cluster by itself: commands in, events out, no mechanism."""

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism.commands import Device, Launch, Lease
from gavelx.mechanism.events import LeaseEnded
from gavelx.simulator.backend import SimulatedCluster
from gavelx.throughputs import Setting, Throughputs


def test_a_lease_that_nobody_extends_lapses_before_anything_later_happens() -> None:
    jobs = [Job(0, "net", 1e6), Job(1, "net", 1e6), Job(2, "net", 1.0, arrival_s=500.0)]
    backend = SimulatedCluster(jobs, Cluster.of({"v100": 2}), Throughputs({Setting("net", "v100"): 2.0}))
    for job_id, until_s in ((0, 300.0), (1, 200.0)):
        lease = Lease(job_id, job_id, "v100", (Device(0, job_id),), until_s, 1e6, 0.0)
        backend.execute(Launch(lease))
    events = []
    for event in backend.events():
        assert event.time_s == backend.now_s
        events.append(event)
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)
    ended = [event for event in events if isinstance(event, LeaseEnded)]
    assert ended == [LeaseEnded(200.0, 1, 1, 400.0), LeaseEnded(300.0, 0, 0, 600.0)]
