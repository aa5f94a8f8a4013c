"""One run from end to end: submit, strike, wait until every job has ended, judge."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc

from gavelx.rpc import wire_pb2 as wire
from tests.faults.cluster import ROOT, Cluster, cluster_of, user_at
from tests.faults.judge import judge
from tests.faults.plan import Plan
from tests.faults.strikes import strike_lane
from tests.service.agents import User
from tests.waiting import until

ENDED = ("complete", "failed", "cancelled")
AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
JOB = Path(__file__).with_name("job.py")


class LostError(AssertionError):
    """Something was lost, or done twice, or is wrong in the books."""


def play(plan: Plan, folder: Path) -> None:
    """Raises :class:`LostError` with all that is wrong."""
    asyncio.run(_play(plan, folder.absolute()))


async def _play(plan: Plan, folder: Path) -> None:
    async with cluster_of(plan, folder) as cluster, user_at(cluster.address) as user:
        await _all_here(cluster, user)
        chance = random.Random(f"strikes {plan.seed}")
        async with asyncio.TaskGroup() as tasks:
            coming = [tasks.create_task(_submit(cluster, user, n)) for n in range(len(plan.jobs))]
            for lane in plan.lanes:
                tasks.create_task(strike_lane(cluster, lane, random.Random(chance.random())))
        job_ids = {n: task.result() for n, task in enumerate(coming)}
        statuses = await _all_ended(cluster, user)
        await cluster.end()
        problems = judge(plan, folder, job_ids, statuses, cluster.late_s) or _replay(cluster)
        if problems:
            raise LostError("\n".join([str(plan), *problems]))


async def _all_here(cluster: Cluster, user: User) -> None:
    """The play begins when every agent has come in."""

    async def all_here() -> bool:
        return (await user.servers()).keys() == cluster.agents.keys()

    await until(all_here, "all agents come in", lambda: tails(cluster))


async def _submit(cluster: Cluster, user: User, n: int) -> int:
    """Submit a job, again and again until the service has it; cancel it, if that is the plan."""
    job = cluster.plan.jobs[n]
    await asyncio.sleep(job.submit_s)
    command = [sys.executable, "-I", "-S", str(JOB), str(job.steps), str(job.step_s), str(job.every), job.habits]
    spec = wire.JobSpec(
        job_type="net",
        workers=job.workers,
        total_steps=job.steps,
        command=command,
        environment={"DEVICES": str(cluster.devices)},
        request_id=f"job {n}",
        elasticity=job.elasticity,
    )
    reply = await insist(user, "Submit", wire.SubmitRequest(version=1, jobs=[spec]))
    (job_id,) = reply.job_ids
    if job.cancel_s is not None:
        await asyncio.sleep(max(0.0, job.cancel_s - job.submit_s))
        await insist(user, "Cancel", wire.CancelRequest(version=1, job_id=job_id))
    return int(job_id)


async def insist(user: User, method: str, request: Any) -> Any:
    """Call until there is an answer: the service may be dead, deaf or without a disk."""

    async def answer() -> Any:
        try:
            return await user.call(method, request)
        except grpc.aio.AioRpcError as error:
            if error.code() not in AGAIN:
                raise
            return None

    return await until(answer, f"an answer to {method}")


async def _all_ended(cluster: Cluster, user: User) -> list[wire.JobStatus]:
    jobs = list[wire.JobStatus]()

    async def ended() -> bool:
        jobs[:] = (await insist(user, "Status", wire.StatusRequest(version=1, ended=True))).jobs
        return all(job.state in ENDED for job in jobs)

    def still() -> str:
        waiting = [job for job in jobs if job.state not in ENDED]
        lines = [f"job {job.job_id} is {job.state} at {job.steps_done:g}: {job.reason}" for job in waiting]
        return "\n".join([str(cluster.plan), *lines, tails(cluster)])

    try:
        await until(ended, "every job ends after the last fault", still)
    except AssertionError as error:
        raise LostError(str(error)) from None
    return jobs


def tails(cluster: Cluster) -> str:
    """What the daemons said last."""
    return "\n".join(f"-- {d.name}\n{d.tail()}" for d in (cluster.service, *cluster.agents.values()))


def _replay(cluster: Cluster) -> list[str]:
    """``gavelx replay`` reads the log."""
    command = [sys.executable, "-m", "gavelx", "replay", cluster.state, "--policy", "max_min_fairness"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return [f"gavelx replay: {done.stderr or done.stdout}"] if done.returncode else []
