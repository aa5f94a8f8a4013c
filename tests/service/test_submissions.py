"""Large submissions, and too many of them."""

import asyncio
from pathlib import Path

import grpc
import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.service import submissions
from gavelx.service.state import State
from gavelx.service.submissions import Submission
from tests.service.agents import configuration, serving, spec, user_of
from tests.service.running import run


def test_others_have_turns_while_a_large_batch_is_checked() -> None:
    async def main() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(other())
        submission = Submission(State(configuration()), [spec()] * 2000, "ada")
        await submission.check()
        others.cancel()
        assert turns >= 2000 // submissions.PIECE
        assert len(submission.entries(0.0)) == len(submission.ids) == 2000

    run(main())


def test_nobody_takes_all_the_room_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "OWNED_JOBS_MAX", 3)

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            first, *_ = await user.submit(*(spec() for _ in range(3)))
            with pytest.raises(grpc.aio.AioRpcError, match="3 jobs of local are live"):
                await user.submit(spec())
            await user.call("Cancel", wire.CancelRequest(version=1, job_id=first))
            await user.submit(spec())

    run(main())
