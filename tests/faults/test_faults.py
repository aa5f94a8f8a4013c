"""A bounded piece of ``make chaos``; and bugs that were put in on purpose, each of which the judge has to see."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.service.store.log import Log
from tests.faults.namespace import Wire, why_not
from tests.faults.plan import FAULTS, OF_RESIZES, SAVED, AgentPlan, Fault, JobPlan, Plan, plan_of
from tests.faults.plants import PLANTS
from tests.faults.run import LostError, play
from tests.waiting import PATIENCE_S

ONE, OTHER = AgentPlan("a", "v100", 1), AgentPlan("b", "v100", 1)
LONG = JobPlan(0.0, 150, 0.02, 10, 1, "")


def fault(kind: str, for_s: float, stage: str = "running", sightings: int = 1, wait_s: float = 0.3) -> Fault:
    return Fault(kind, stage, wait_s, sightings, for_s, PATIENCE_S)


def longer(plan: Plan, times: int) -> Plan:
    """The same, with faults and jobs that last so many times as long."""
    jobs = tuple(replace(job, steps=times * job.steps) for job in plan.jobs)
    lanes = tuple(tuple(replace(each, for_s=times * each.for_s) for each in lane) for lane in plan.lanes)
    return replace(plan, jobs=jobs, lanes=lanes)


LONGER = (1, 4, 16)
"""What a busy machine has no time for is tried with more of it."""
PLANTED = {
    "forgets the deadline": Plan(0, (replace(LONG, steps=400),), (ONE, OTHER), ((fault("cut the link", 4.5),),)),
    "gives up too early": Plan(
        0, (replace(LONG, steps=400, habits="deaf"),), (ONE, OTHER), (3 * (fault("cut the link", 2.0),),)
    ),
    "begins anew": Plan(0, (LONG,), (ONE, OTHER), ((fault("kill the job", 0.0, SAVED),),)),
    "answers too early": Plan(
        0, (JobPlan(1.0, 20, 0.02, 10, 1, ""),), (ONE,), ((fault("kill the service", 0.0, "running", 1, 0.0),),)
    ),
    "counts twice": Plan(0, (JobPlan(0.0, 20, 0.02, 10, 1, ""),), (ONE,), ()),
}
SEEN = {
    "forgets the deadline": "ran twice at once",
    "gives up too early": "ran twice at once",
    "begins anew": "were saved",
    "answers too early": "the log has none of them|nobody knows it|the log lost records",
    "counts twice": "ended twice",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    play(plan_of(seed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS)
def test_the_judge_sees_a_planted_bug(tmp_path: Path, plant: str) -> None:
    """Where a process takes as long to begin as a fault lasts there may be nothing to see."""
    said = []
    for times in LONGER:
        said.append(problems(replace(longer(PLANTED[plant], times), plant=plant), tmp_path / f"{times}"))
        if re.search(SEEN[plant], said[-1]):
            return
    raise AssertionError(said)


def problems(plan: Plan, folder: Path) -> str:
    """What the judge says."""
    try:
        play(plan, folder)
    except LostError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_wire_that_is_pulled_and_plugged_in_again(tmp_path: Path) -> None:
    """For longer than a lease, in a network namespace: packets vanish, and no connection breaks."""
    if why := why_not():
        pytest.skip(why)
    deaf = JobPlan(0.0, 150, 0.02, 10, 1, "deaf,forks")
    agents = (replace(ONE, wired=True), replace(OTHER, wired=True))
    plan = Plan(0, (LONG, deaf), agents, ((fault("cut the link", 4.5), fault("cut the link", 0.5)),))
    for times in LONGER:
        folder = tmp_path / f"{times}"
        play(longer(plan, times), folder)
        log = Log(str(folder / "service"), read_only=True)
        lost = "WorkerLost" in {record.kind for record in log.read()}
        log.close()
        if lost:
            return
    raise AssertionError("no server was ever lost")


@pytest.mark.slow
def test_no_two_wires_have_the_same_addresses() -> None:
    """Nor where a run was killed, which leaves its wire behind without its claim."""
    if why := why_not():
        pytest.skip(why)

    async def main() -> None:
        async with Wire("127.0.0.1:1") as mine, Wire("127.0.0.1:1") as other:
            other._claim.close()
            async with Wire("127.0.0.1:1") as another:
                assert len({mine.host, other.host, another.host}) == 3

    asyncio.run(main())


def test_the_same_seed_is_the_same_plan_and_all_faults_come_up() -> None:
    plans = [plan_of(seed) for seed in range(100)]
    assert plans == [plan_of(seed) for seed in range(100)]
    assert {each.kind for plan in plans for lane in plan.lanes for each in lane} == {*FAULTS, *OF_RESIZES}
