"""Devices lent by an inference service: figures of a short run, and the page."""

import numpy as np
import pytest

from experiments.serving.__main__ import plot, table
from experiments.serving.simulated import DAYS, LEAST, MOST, jobs, lent, refill_s, run


def test_what_is_lent_follows_the_day() -> None:
    shares = lent(0)
    assert sum(seconds for seconds, _ in shares) == pytest.approx(DAYS * 86400.0)
    assert all(LEAST <= share <= MOST and seconds > 0.0 for seconds, share in shares)
    ends_s = np.cumsum([seconds for seconds, _ in shares])
    by_day, by_night = (shares[int(np.searchsorted(ends_s, hour * 3600.0))][1] for hour in (14, 26))
    assert by_day < 0.5 < by_night


def test_how_long_a_refill_takes() -> None:
    time_s, lends = np.arange(0.0, 100.0, 10.0), np.where(np.arange(10) < 3, 4.0, 8.0)
    busy = np.array([4, 4, 4, 4, 4, 7, 8, 8, 8, 8.0])
    assert refill_s(time_s, busy, lends, [30.0]) == [30.0]
    assert refill_s(time_s, busy, lends, [30.0, 40.0]) == [30.0, 20.0]
    taken = np.where(np.arange(10) < 5, lends, 3.0)
    assert refill_s(time_s, busy, taken, [30.0]) == [10.0]  # not before devices are taken back
    assert refill_s(time_s, busy, lends, []) == []


@pytest.mark.slow
def test_jobs_survive_what_is_taken_back_and_fill_what_is_lent() -> None:
    shared, alone = (run(1, "elastic(easyscale)", lends=lends) for lends in (True, False))
    assert shared["failed"] == alone["failed"] == 0.0
    assert shared["preemptions"] > 362
    assert shared["lost_device_hours"] == 0.0
    assert shared["allocation"] > alone["allocation"] + 0.1
    assert shared["refill_longest_s"] <= 300.0
    assert len(jobs(1)[0]) == 40
    page = table({"lending": [shared], "not": [alone]})
    assert page.count("\n") == 3
    assert plot(shared).startswith(b"\x89PNG")
