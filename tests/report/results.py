"""Results made by hand or drawn by hypothesis, without a simulator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.result import Leases, Result

NASTY = (
    "<script>alert(1)</script>",
    "$x^{",
    "_hidden",
    "策略",
    "a" * 300,
    '"&<b>',
    "[red]no[/]",
    "two\nlines",
    "\ud800",
)
"""Names that break HTML, XML, formulas, legends, fonts, layouts, markup, lines and UTF-8."""

Row = tuple[int, int, int, float, float]
"""A lease: job, accelerator, devices, start and length in hours."""


def result(
    leases: Sequence[Row] = ((0, 0, 1, 0.0, 1.0), (1, 1, 2, 0.5, 2.0)),
    completion_h: Sequence[float] = (1.0, 2.5),
    *,
    policy: str = "fifo",
    cluster: str = "v100=2,k80=2",
    usd_per_hour: Sequence[float] = (2.0, 0.5),
    **fields: Any,
) -> Result:
    """A run with these leases; NaN in ``completion_h`` for a job that did not complete."""
    whole = Cluster.parse(cluster)
    L = [np.array(column) for column in zip(*leases, strict=True)] if leases else [np.zeros(0)] * 5
    start_s, length_s = L[3] * 3600.0, L[4] * 3600.0
    done_s = np.array(completion_h, dtype=float) * 3600.0
    jobs = tuple(Job(j, "ResNet-18 (batch size 16)", 100.0) for j in range(len(completion_h)))
    ends = [*(start_s + length_s), *done_s[~np.isnan(done_s)], 0.0]
    made = {
        "policy": policy,
        "rules": "default",
        "cluster": whole,
        "jobs": jobs,
        "throughput_JA": np.ones((len(jobs), len(whole.accelerators))),
        "usd_per_hour_A": np.array(usd_per_hour, dtype=float),
        "completion_s_J": done_s,
        "leases": Leases(
            job_L=L[0].astype(int),
            accelerator_L=L[1].astype(int),
            devices_L=L[2].astype(int),
            start_s_L=start_s,
            end_s_L=start_s + length_s,
            billed_s_L=length_s,
            busy_s_L=length_s,
            moved_L=np.zeros(len(start_s), dtype=bool),
            resized_L=np.zeros(len(start_s), dtype=bool),
        ),
        "rounds": 1,
        "end_s": float(max(ends)),
    }
    return Result(**{**made, **fields})


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Any run: no jobs done, no leases, unknown prices, strange names."""
    J = draw(st.integers(1, 6))
    hours = st.floats(0.001, 1e4)
    completion_h = draw(st.lists(st.one_of(st.just(float("nan")), hours), min_size=J, max_size=J))
    row = st.tuples(st.integers(0, J - 1), st.integers(0, 1), st.integers(1, 2), st.floats(0, 100), hours)
    price = st.one_of(st.just(float("nan")), st.floats(0, 50))
    return result(
        draw(st.lists(row, max_size=8)),
        completion_h,
        policy=draw(st.one_of(st.sampled_from(NASTY), st.text(max_size=20))),
        cluster=draw(st.sampled_from(["v100=2,k80=2", "v100=1,k80=0", "v100=0,k80=7"])),
        usd_per_hour=draw(st.lists(price, min_size=2, max_size=2)),
    )
