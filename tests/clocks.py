"""Time passes that nobody waits for: the monotonic clock of this process, put on by hand.

Everything here goes by it, the event loop as well: what is due comes due. What is in other processes does not.
"""

import time
from time import monotonic
from typing import Any

import pytest

STEP_S = 20.0
"""Less than any lease or silence lasts in these tests."""


class Clock:
    """``now_s`` is what `time.monotonic` says from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        patch.setattr(time, "monotonic", self.now_s)

    def now_s(self) -> float:
        return monotonic() + self.ahead_s

    async def turn(self, seconds: float, *here: Any) -> None:
        """Put it on. Agents that are ``here`` (`tests.service.agents.FakeAgent`) are renewed all the while."""
        end_s = self.ahead_s + seconds
        while self.ahead_s < end_s:
            self.ahead_s = min(end_s, self.ahead_s + STEP_S)
            for agent in here:
                await agent.until_renewed()
