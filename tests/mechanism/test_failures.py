"""What a failed launch means: when and where a job is tried again, and which servers are put aside."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from gavelx.cluster import Server
from gavelx.jobs import Job, Preemptible
from gavelx.mechanism.commands import Command, GiveUp, Lease, Solve, WakeAt
from gavelx.mechanism.events import Allocated, Event, JobSubmitted, LeaseEnded, Progress, Wake, WorkerJoined
from gavelx.mechanism.mechanism import Mechanism
from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.solvers import certified
from gavelx.throughputs import Setting, Throughputs


class Cluster:
    """A mechanism, and a policy that shares devices equally."""

    def __init__(self, servers: Sequence[tuple[str, int]], rules: Rules = DEFAULT) -> None:
        speeds = {Setting("t", name, 1): 1.0 for name, _ in servers}
        self.mechanism = Mechanism(Throughputs(speeds), rules=rules)
        self.given_up: list[int] = []
        self.wakes = set[float]()
        for server_id, (name, count) in enumerate(servers):
            self.tell(WorkerJoined(0.0, Server(server_id, name, count), 0))

    def tell(self, event: Event) -> list[Command]:
        commands = list[Command]()
        for command in self.mechanism.handle(event):
            if isinstance(command, Solve):
                table = command.snapshot.configurations
                good_C = table.runnable_C
                share_C = good_C / max(1, len(good_C), len(command.snapshot.jobs))
                answer = certified(command.snapshot, share_C, path="test", seconds=0.0)
                commands += self.tell(Allocated(event.time_s, answer))
            else:
                commands.append(command)
        self.mechanism.validate()
        self.wakes |= {command.time_s for command in commands if isinstance(command, WakeAt)}
        self.given_up += [command.job_id for command in commands if isinstance(command, GiveUp)]
        return commands

    def submit(self, job_id: int, retries: int | None = None, preemptible: Preemptible = "auto") -> None:
        self.tell(JobSubmitted(0.0, Job(job_id, "t", retries=retries, preemptible=preemptible)))
        self.tell(Wake(0.0))

    def lease(self, job_id: int) -> Lease | None:
        return self.mechanism.leasing.leases.get(job_id)

    def fail(
        self, job_id: int, time_s: float, held_s: float = 1.0, exit_code: int = 1, too_small: Sequence[str] = ()
    ) -> int:
        """The job's lease fails; on which server it was."""
        lease = self.lease(job_id)
        assert lease is not None
        self.tell(
            LeaseEnded(time_s, lease.id, job_id, 0.0, held_s, True, exit_code=exit_code, too_small=too_small)
        )
        self.tell(Wake(time_s))
        return lease.devices[0].server_id

    def runs_on(self, job_id: int) -> int | None:
        lease = self.lease(job_id)
        return None if lease is None else lease.devices[0].server_id


def test_a_failed_job_is_tried_again_after_longer_and_longer_times() -> None:
    cluster = Cluster([("v100", 1)])
    cluster.submit(0)
    time_s = 10.0
    for wait_s in (60.0, 120.0, 240.0):
        cluster.fail(0, time_s)
        cluster.tell(Wake(time_s + wait_s - 1.0))
        assert cluster.lease(0) is None
        cluster.tell(Wake(time_s + wait_s))
        assert cluster.lease(0) is not None
        time_s += wait_s + 1.0


def test_the_end_of_the_wait_is_a_wake() -> None:
    cluster = Cluster([("v100", 1)])
    cluster.submit(0)
    lease = cluster.lease(0)
    assert lease is not None
    commands = cluster.tell(LeaseEnded(10.0, lease.id, 0, 0.0, 1.0, failed=True, exit_code=1))
    assert 70.0 in [getattr(command, "time_s", None) for command in commands]


def test_each_of_several_failed_jobs_is_tried_again_in_its_time() -> None:
    cluster = Cluster([("v100", 3)])
    for job_id in range(3):
        cluster.submit(job_id)
    for job_id, time_s in ((0, 10.0), (1, 20.0), (2, 30.0)):
        cluster.fail(job_id, time_s)
    begun = dict[int, float]()
    cluster.wakes = {time_s for time_s in cluster.wakes if time_s > 30.0}
    while cluster.wakes and len(begun) < 3:  # nothing else happens than the wakes that were asked for
        now_s = min(cluster.wakes)
        cluster.wakes.remove(now_s)
        cluster.tell(Wake(now_s))
        cluster.wakes = {time_s for time_s in cluster.wakes if time_s > now_s}
        begun |= {job_id: now_s for job_id in cluster.mechanism.leasing.leases if job_id not in begun}
    assert begun == {0: 70.0, 1: 80.0, 2: 90.0}


def test_a_server_put_aside_is_tried_again_where_nothing_else_happens() -> None:
    cluster = broken(5, 6)
    for time_s in (10.0, 11.0, 12.0):
        (job_id,) = [i for i in range(6) if cluster.lease(i)]
        cluster.fail(job_id, time_s)
    (aside,) = cluster.mechanism.failures.aside.values()
    assert aside.until_s in cluster.wakes


def test_a_failed_job_tries_another_server_at_once() -> None:
    cluster = Cluster([("v100", 1), ("v100", 1)])
    cluster.submit(0)
    first = cluster.fail(0, 10.0)
    assert cluster.runs_on(0) == 1 - first
    cluster.fail(0, 20.0)
    assert cluster.lease(0) is None


def test_a_failed_job_tries_another_type_at_once() -> None:
    cluster = Cluster([("v100", 1), ("a100", 1)])
    cluster.submit(0)
    first = cluster.fail(0, 10.0)
    assert cluster.runs_on(0) == 1 - first


def test_a_waiting_job_takes_the_place_of_one_that_backs_off() -> None:
    cluster = Cluster([("v100", 1)])
    cluster.submit(0)
    cluster.submit(1)
    first = 0 if cluster.lease(0) else 1
    cluster.fail(first, 10.0)
    assert cluster.lease(1 - first) is not None


def test_ten_minutes_without_a_disk_fail_no_job() -> None:
    for servers in (1, 3):
        cluster = Cluster([("v100", 2)] * servers)
        for job_id in range(2 * servers):
            cluster.submit(job_id)
        for time_s in range(10, 610, 2):
            for job_id in list(cluster.mechanism.leasing.leases):
                cluster.fail(job_id, float(time_s))
            cluster.tell(Wake(float(time_s)))
        assert cluster.given_up == []
        for time_s in range(610, 3000, 10):
            cluster.tell(Wake(float(time_s)))
        assert len(cluster.mechanism.leasing.leases) == 2 * servers


def test_a_long_run_that_exits_with_an_error_is_final() -> None:
    cluster = Cluster([("v100", 1)])
    cluster.submit(0)
    cluster.fail(0, 3600.0, held_s=3600.0)
    assert cluster.given_up == [0]


def test_a_long_run_that_is_killed_is_tried_again() -> None:
    cluster = Cluster([("v100", 1)])
    cluster.submit(0)
    cluster.fail(0, 3600.0, held_s=3600.0, exit_code=-9)
    assert cluster.given_up == []


def test_a_user_says_how_many_retries_a_job_has() -> None:
    for retries, failures in ((0, 1), (2, 3), (7, 8)):
        cluster = Cluster([("v100", 1)])
        cluster.submit(0, retries=retries)
        time_s, seen = 3600.0, 0
        while not cluster.given_up:
            cluster.fail(0, time_s, held_s=1800.0)
            seen, time_s = seen + 1, time_s + 7200.0
            cluster.tell(Wake(time_s))
        assert seen == failures


def broken(servers: int, jobs: int) -> Cluster:
    """One broken server, and others on which long jobs run; short jobs come."""
    cluster = Cluster([("v100", 1)] * servers)
    for job_id in range(100, 100 + servers - 1):
        cluster.submit(job_id, preemptible="no")
    for job_id in range(jobs):
        cluster.submit(job_id)
    return cluster


def test_a_server_on_which_different_jobs_fail_is_put_aside() -> None:
    cluster = broken(5, 6)
    good = {cluster.runs_on(job_id) for job_id in range(100, 104)}
    (bad,) = set(range(5)) - good
    for time_s in (10.0, 11.0, 12.0):
        (job_id,) = [i for i in range(6) if cluster.lease(i)]
        assert cluster.fail(job_id, time_s) == bad
    assert not any(cluster.lease(i) for i in range(6))
    assert "3 different jobs failed" in cluster.mechanism.failures.aside[bad].reason
    assert not cluster.mechanism.live.failures.any()
    cluster.tell(Wake(500.0))
    assert not any(cluster.lease(i) for i in range(6))
    cluster.tell(Wake(700.0))
    (job_id,) = [i for i in range(6) if cluster.lease(i)]  # it is tried again
    cluster.fail(job_id, 701.0)
    assert bad in cluster.mechanism.failures.aside


def test_a_server_that_comes_anew_is_in_service_again() -> None:
    cluster = broken(5, 6)
    (bad,) = set(range(5)) - {cluster.runs_on(job_id) for job_id in range(100, 104)}
    for time_s in (10.0, 11.0, 12.0):
        (job_id,) = [i for i in range(6) if cluster.lease(i)]
        cluster.fail(job_id, time_s)
    cluster.tell(WorkerJoined(20.0, Server(bad, "v100", 1), 1))
    cluster.tell(Wake(20.0))
    assert not cluster.mechanism.failures.aside
    cluster.tell(Wake(80.0))
    assert any(cluster.lease(i) for i in range(6))


def test_the_only_server_is_never_put_aside() -> None:
    cluster = Cluster([("v100", 1)])
    for job_id in range(8):
        cluster.submit(job_id)
    for time_s in range(10, 18):
        (job_id,) = cluster.mechanism.leasing.leases
        cluster.fail(job_id, float(time_s))
    assert not cluster.mechanism.failures.aside


def test_jobs_that_fail_everywhere_put_no_server_aside() -> None:
    cluster = Cluster([("v100", 1)] * 3)
    for job_id in range(9):
        cluster.submit(job_id)
    for time_s in range(10, 2000, 2):
        for job_id in list(cluster.mechanism.leasing.leases):
            cluster.fail(job_id, float(time_s))
        cluster.tell(Wake(float(time_s)))
    for time_s in range(2000, 20000, 30):
        for job_id in list(cluster.mechanism.leasing.leases):
            cluster.fail(job_id, float(time_s))
        cluster.tell(Wake(float(time_s)))
    assert sorted(cluster.given_up) == list(range(9))


def test_a_job_that_does_not_fit_tries_each_type_once() -> None:
    cluster = Cluster([("v100", 2), ("a100", 1), ("k80", 1)])
    cluster.submit(0)
    tried, time_s = list[str](), 0.0
    while (lease := cluster.lease(0)) is not None and lease.accelerator != "a100":
        tried.append(lease.accelerator)
        time_s += 10.0
        cluster.fail(0, time_s, too_small=(lease.accelerator,))
        cluster.tell(Wake(time_s := time_s + 3000.0))
    assert len(tried) == len(set(tried))
    assert cluster.runs_on(0) == 1
    assert cluster.given_up == []


def test_a_job_that_fits_on_no_type_is_given_up() -> None:
    cluster = Cluster([("v100", 1), ("a100", 1)])
    cluster.submit(0)
    cluster.fail(0, 10.0, too_small=("v100", "a100"))
    assert cluster.given_up == [0]


def test_a_job_that_backs_off_does_not_fill_a_device_beside_running_scripts() -> None:
    """Two scripts run that saved nothing; a third failed on two servers, and a fifth one is idle."""
    cluster = Cluster([("v100", 1)] * 5, dataclasses.replace(DEFAULT, retry_s=3600.0))
    for job_id in range(3):
        cluster.submit(job_id)
    cluster.mechanism.live.saves[:] = False
    assert cluster.fail(2, 1.0) != cluster.fail(2, 2.0)
    for round_ in range(1, 5):
        cluster.tell(Wake(400.0 * round_))
        assert cluster.lease(2) is None


def test_a_saved_step_makes_failures_good() -> None:
    cluster = Cluster([("v100", 1), ("v100", 1)])
    cluster.submit(0)
    failed_on = cluster.fail(0, 1.0)
    assert cluster.mechanism.failures.avoided(0) == {failed_on}
    lease = cluster.lease(0)
    assert lease is not None
    done = np.array([5.0])
    cluster.tell(Progress(2.0, np.array([lease.id]), np.array([0]), done, done))
    assert not cluster.mechanism.failures.avoided(0)
