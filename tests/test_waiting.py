"""Waiting gives what was waited for; where that never comes, it says what was seen instead."""

import asyncio

import pytest

from tests import waiting
from tests.waiting import until, wait_until


def test_what_is_waited_for_is_given() -> None:
    async def later() -> int:
        return next(async_looks)

    looks, async_looks = iter([0, 0, 3]), iter([0, 4])
    assert wait_until(lambda: next(looks), "a number") == 3
    assert asyncio.run(until(later, "a number")) == 4
    assert asyncio.run(until(lambda: 5, "a number")) == 5


def test_what_never_comes_is_said_with_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    with pytest.raises(AssertionError, match=r"never: a job runs; seen: \[\]"):
        wait_until(list, "a job runs")
    with pytest.raises(AssertionError, match="never: a job runs; seen: it waits"):
        asyncio.run(until(lambda: False, "a job runs", lambda: "it waits"))
