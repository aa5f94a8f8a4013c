"""Jobs as processes: what they are given, how they end, and that nothing of them stays."""

import asyncio
from pathlib import Path

from tests.worker.machines import machine


def test_a_job_that_ends_by_itself_is_complete(tmp_path: Path) -> None:
    async def play() -> None:
        async with machine(tmp_path) as m:
            await m.scheduler.connected()
            m.scheduler.launch_python(1, "print('hello')", until_step=20.0)
            ended = await m.scheduler.end_of(1)
            assert (ended.complete, ended.failed, ended.steps_done, ended.exit_code) == (True, False, 20.0, 0)
            assert ended.job_id == 101 and ended.held_s > 0.0
            assert m.output(1) == "hello\n"

    asyncio.run(play())
