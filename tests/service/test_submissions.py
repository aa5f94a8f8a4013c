"""Large submissions, and too many of them."""

import asyncio
import itertools
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.errors import UserError
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.channels import Access
from gavelx.rpc.refused import RefusedError
from gavelx.rpc.tokens import Role
from gavelx.service.api import limits
from gavelx.service.api import submit as submissions
from gavelx.service.api.auth import LOCAL, Caller
from gavelx.service.api.limits import Allowance, Limits
from gavelx.service.api.submit import Submission
from gavelx.service.state.state import State
from tests.service.agents import FakeAgent, configuration, serving, spec, tokens_for, user_of
from tests.service.desk import Desk
from tests.service.running import run
from tests.waiting import until


def test_others_have_turns_while_a_large_batch_is_checked() -> None:
    async def main() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(other())
        submission = Submission(State(configuration()), [spec()] * 2000, Allowance(LOCAL))
        await submission.check()
        others.cancel()
        assert turns >= 2000 // submissions.PIECE
        assert len(submission.entries(0.0)) == len(submission.ids) == 2000

    run(main())


ACCOUNTS = ("ada", "bob", "eve", "ops")


async def submit(state: State, owner: str, *specs: wire.JobSpec, role: Role = "user") -> int:
    """How many jobs of the owner are live when all of these, or none, have been accepted."""
    submission = Submission(state, specs, Allowance(Caller(owner, role), ACCOUNTS, Limits(jobs=30)))
    await submission.check()
    for entry in submission.entries(0.0):
        state.apply(entry)
    return len(state.live_of.get(owner, ()))


async def fill(state: State, owner: str, role: Role = "user") -> int:
    """Submit until that is refused; how many jobs are live then."""
    for n in itertools.count():
        try:
            await submit(state, owner, spec(), role=role)
        except RefusedError:
            return n
    raise AssertionError


def test_two_accounts_cannot_close_the_queue_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor can three: of 80 places 10 are kept for each of four."""
    monkeypatch.setattr(limits, "LIVE_JOBS_MAX", 80)

    async def main() -> None:
        state = State(configuration())
        assert await fill(state, "ada") == 30, "that is what operators allow a user"
        assert await fill(state, "bob") == 30
        assert await fill(state, "eve") == 10
        assert await fill(state, "ops", role="operator") == 10

    run(main())


def test_an_operator_has_all_that_is_not_kept_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_JOBS_MAX", 80)

    async def main() -> None:
        state = State(configuration())
        assert await fill(state, "ops", role="operator") == 50
        assert await fill(state, "eve") == 10

    run(main())


def test_accounts_that_are_new_find_room_in_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_JOBS_MAX", 20)

    async def main() -> None:
        state = State(configuration())
        alone = Submission(state, [spec()] * 20, Allowance(Caller("old", "operator"), {"old"}))
        await alone.check()
        for entry in alone.entries(0.0):
            state.apply(entry)
        assert await fill(state, "ada") == 20 // 2 // len(ACCOUNTS)

    run(main())


def test_jobs_on_their_way_to_the_log_take_room() -> None:
    async def main() -> None:
        state = State(configuration())
        allowance = Allowance(Caller("ada", "user"), ACCOUNTS, Limits(jobs=30))
        first, second = (Submission(state, [spec()] * 20, allowance) for _ in range(2))
        await first.check()
        await second.check()
        pending = first.entries(0.0)
        with pytest.raises(RefusedError, match="20 jobs of ada are live, 20 more would be 40, and 30 may be"):
            second.entries(0.0)
        state.forget_unlogged()  # the first did not reach the log
        assert len(pending) == len(second.entries(0.0)) == 20

    run(main())


def test_what_was_accepted_before_is_not_refused_when_it_is_sent_again() -> None:
    async def main() -> None:
        state = State(configuration())
        specs = [spec(request_id=str(n)) for n in range(30)]
        assert await submit(state, "ada", *specs) == await submit(state, "ada", *specs) == 30
        with pytest.raises(RefusedError, match="30 jobs of ada"):
            await submit(state, "ada", *specs, spec(request_id="another"))

    run(main())


def test_operators_bound_what_a_users_job_weighs() -> None:
    async def main() -> None:
        state = State(configuration())
        await submit(state, "ada", spec(weight=10.0), spec(weight=0.1))
        await submit(state, "ops", spec(weight=1e12), role="operator")
        with pytest.raises(
            UserError, match=r"job 2 of 2 \('big'\): weight is 10.5; expected at most 10, .*--max-weight"
        ):
            await submit(state, "ada", spec(), spec(weight=10.5, name="big"))

    run(main())


@pytest.mark.slow
def test_one_job_of_another_user_runs_beside_hundreds(tmp_path: Path) -> None:
    """A cluster with tokens begins with a share for each owner."""
    texts = tokens_for(tmp_path, ada="user", bob="user", machine="agent")

    async def main() -> None:
        tokens = str(tmp_path / "tokens.json")
        async with (
            serving(tmp_path / "state", tokens=tokens) as service,
            user_of(service, token=texts["ada"]) as ada,
            user_of(service, token=texts["bob"]) as bob,
            FakeAgent(service.address, access=Access(service.address, texts["machine"])),
        ):
            await bob.submit(*[spec(1e6)] * 300)
            (job_id,) = await ada.submit(spec(50.0))
            (job,) = await ada.until("complete", job_id)
            assert job.owner == "ada"
            assert service.scheduler.state.policy == "hierarchical(max_min_fairness)"

    run(main())


@pytest.mark.slow
def test_owners_hold_devices_of_the_same_value(tmp_path: Path) -> None:
    texts = tokens_for(tmp_path, ada="user", bob="user", machine="agent")
    priced = replace(configuration(), prices=Prices({"v100": 4.0, "k80": 1.0}))

    async def main() -> None:
        options = {"configuration": priced, "tokens": str(tmp_path / "tokens.json"), "policy": "value_fair_share"}
        async with (
            serving(tmp_path / "state", **options) as service,
            user_of(service, token=texts["ada"]) as ada,
            user_of(service, token=texts["bob"]) as bob,
            FakeAgent(service.address, devices=1, access=Access(service.address, texts["machine"])),
            FakeAgent(service.address, "two", 4, "k80", access=Access(service.address, texts["machine"])),
        ):
            await ada.submit(*[spec(1e6)] * 8)
            await bob.submit(*[spec(1e6)] * 4)
            state = service.scheduler.state
            shape = lambda: state.allocation and state.allocation.share_JA.shape  # noqa: E731
            await until(lambda: shape() == (12, 2), "an allocation to all jobs on both types", shape)
            assert state.allocation is not None
            usd_J = (state.allocation.share_JA * state.allocation.snapshot.usd_per_hour_A).sum(axis=1)
            of_ada_J = [job.owner == "ada" for job in state.allocation.snapshot.jobs]
            assert usd_J[of_ada_J].sum() == pytest.approx(4.0) == usd_J.sum() / 2

    run(main())


@pytest.mark.slow
def test_a_log_keeps_its_policy_when_tokens_come_later(tmp_path: Path) -> None:
    tokens_for(tmp_path, ada="user")

    async def main() -> None:
        for options, policy in (
            ({}, "max_min_fairness"),
            ({"tokens": str(tmp_path / "tokens.json")}, "max_min_fairness"),
            ({"policy": "fifo"}, "fifo"),
        ):
            async with serving(tmp_path / "state", **options) as service:
                state = service.scheduler.state
                await until(lambda state=state, policy=policy: state.policy == policy, f"the policy is {policy}")

    run(main())


async def seconds_for(jobs: int) -> float:
    """Processor time of a submission of jobs, each of a type of its own, until all are applied."""
    desk = Desk()
    for accelerator in ("a100", "v100", "k80"):
        await desk.agent(accelerator, 1, accelerator=accelerator)
    own = {"a100": 3.0, "v100": 2.0, "k80": 1.0}
    specs = [wire.JobSpec(command=[f"./own{n}"], total_steps=9, steps_per_s=own) for n in range(jobs // 2)]
    specs += [wire.JobSpec(command=[f"./untold{n}"]) for n in range(jobs // 2)]
    submission = Submission(desk.state, specs, Allowance(LOCAL))
    begun_s = time.process_time()
    await submission.check()
    for entry in submission.entries(0.0):
        desk.state.apply(entry)
    return time.process_time() - begun_s


def test_many_types_cost_little_more_each_than_few() -> None:
    """Eight times as many take eight times as long; 64 times where each job goes over all others."""

    async def main() -> None:
        assert min([await seconds_for(8000) for _ in range(2)]) < 24 * min(
            [await seconds_for(1000) for _ in range(3)]
        )

    run(main())


def test_jobs_without_room_are_refused_before_they_are_looked_at() -> None:
    async def main() -> None:
        allowance = Allowance(Caller("ada", "user"), ACCOUNTS, Limits(jobs=30))
        submission = Submission(State(configuration()), [wire.JobSpec()] * 31, allowance)  # none could run
        with pytest.raises(RefusedError, match="30 may be"):
            await submission.check()

    run(main())
