"""How a lease ended, from what the shim saw and the job said."""

from typing import Any

import pytest

from gavelx.worker.outcome import Said, outcome

LAUNCH = {"saved_steps": 10.0, "until_step": 100.0}
FAILED = {"rank": 1, "reason": "", "exit_code": -9}


def exit(**more: Any) -> dict[str, Any]:
    return {"asked": "", "killed": False, "failed": None, "exit_codes": {"0": 0}} | more


def said(steps: float, saved: float, complete: bool = False) -> dict[str, Any]:
    return {"steps_done": steps, "saved_steps": saved, "complete": complete}


@pytest.mark.parametrize(
    ("exited", "report", "expected"),
    [
        (exit(), None, (100.0, False, True, 0)),
        (exit(), said(60, 50), (50.0, False, False, 0)),
        (exit(), said(60, 10), (10.0, True, False, 0)),  # it would be launched again for nothing, for ever
        (exit(), said(10, 10), (10.0, True, False, 0)),
        (exit(), said(5, 2), (10.0, True, False, 0)),  # steps do not go backwards
        (exit(), said(0, 0), (10.0, True, False, 0)),
        (exit(), said(100, 90, True), (100.0, False, True, 0)),
        (exit(failed=FAILED), said(60, 50), (50.0, True, False, -9)),
        (exit(failed=FAILED), None, (10.0, True, False, -9)),
        (exit(failed=FAILED), said(100, 100, True), (100.0, False, True, 0)),
        (exit(asked="it"), None, (10.0, True, False, 0)),  # the agent knows nothing of it
        (exit(asked="it", exit_codes={"0": -15}), None, (10.0, True, False, -15)),
        (exit(asked="it", exit_codes={"0": -15}), said(60, 10), (10.0, True, False, -15)),
        (exit(asked="room", killed=True, exit_codes={"0": -9}), said(60, 50), (50.0, False, False, -9)),
        (exit(asked="room"), said(100, 100, True), (100.0, False, True, 0)),
        (None, said(60, 50), (50.0, True, False, -9)),
        (None, None, (10.0, True, False, -9)),
    ],
)
def test_every_way_to_end(
    exited: dict[str, Any] | None, report: dict[str, Any] | None, expected: tuple[float, bool, bool, int]
) -> None:
    result = outcome(LAUNCH, exited, report)
    assert (result.steps_done, result.failed, result.complete, result.exit_code) == expected
    assert result.reason


@pytest.mark.parametrize(
    ("level", "order", "expected"),
    [
        ("elastic", "torch-ddp", ("elastic", "torch-ddp")),
        ("none", None, ("none", "")),
        ("exact", "ring", ("", "")),
        ([], {"a": 1}, ("", "")),
        ("x" * 10_000_000, 7, ("", "")),
    ],
)
def test_which_bits_it_says_to_keep(level: Any, order: Any, expected: tuple[str, str]) -> None:
    found = Said.of({"determinism": level, "order": order})
    assert found is not None
    assert found.bits == expected


@pytest.mark.parametrize("report", [None, said(60, 10), said(60, 50)])
def test_a_job_that_was_to_stop_has_not_failed(report: dict[str, Any] | None) -> None:
    result = outcome(LAUNCH, exit(asked="room", exit_codes={"0": -15}), report, leaving=True)
    steps = report["saved_steps"] if report else 10.0
    assert (result.failed, result.complete, result.steps_done, result.exit_code) == (False, False, steps, -15)


@pytest.mark.parametrize("report", [said(60, 10), said(60, 50)])
def test_a_job_that_leaves_as_its_lease_is_over_has_not_failed(report: dict[str, Any]) -> None:
    """It saw the request in its lease file, or that nobody renews it, before it was asked."""
    result = outcome(LAUNCH, exit(), report, leaving=True)
    assert (result.failed, result.complete, result.steps_done) == (False, False, report["saved_steps"])


@pytest.mark.parametrize("exited", [None, exit(failed={"rank": None, "reason": "no room", "exit_code": 126})])
def test_a_lease_that_never_began_is_no_failure_of_the_job(exited: dict[str, Any] | None) -> None:
    result = outcome(LAUNCH, exited, None, began=False)
    assert (result.failed, result.complete, result.steps_done) == (False, False, 10.0)
    assert outcome(LAUNCH, exited, None, began=True).failed


@pytest.mark.parametrize("nonsense", ["a", None, -1, float("nan"), float("inf"), 1e300, 10**400, [], {}, "1"])
def test_nonsense_in_a_report_counts_as_nothing(nonsense: object) -> None:
    assert Said.of({"steps_done": nonsense, "saved_steps": nonsense, "complete": nonsense}) == Said()


def test_the_reason_names_rank_signal_and_last_words() -> None:
    reason = outcome(LAUNCH, exit(failed=FAILED), None, "CUDA out of memory").reason
    assert reason == "its process of rank 1 was killed by SIGKILL: CUDA out of memory"
