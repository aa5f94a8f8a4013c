"""Servers that a cloud takes away and gives back: nobody runs on one that is gone; with notice nothing is lost."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism.rules import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.capacity import HORIZON_S, Capacity
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "v100", 1): 1.0})
CHECKPOINTS = replace(DEFAULT, overheads=Overheads(Overhead(checkpoint_s=60.0, restart_s=0.0)))


def run(capacity: Capacity, *jobs: Job, servers: int = 2, rules=DEFAULT, faults=NO_FAULTS) -> Result:
    cluster = Cluster.of({"v100": servers}, devices_per_server=1)
    return simulate(
        load_policy("max_min_fairness"),
        jobs,
        cluster,
        SPEEDS,
        Prices({"v100": 3.6}),
        rules=rules,
        faults=faults,
        capacities=[capacity],
    )


def test_a_server_goes_and_comes_back() -> None:
    job = Job(0, "net", 1000.0)
    result = run(Capacity("v100", ((400.0, 1.0), (300.0, 0.0), (1e9, 1.0))), job, servers=1)
    start_s, end_s = result.leases.start_s_L, result.leases.end_s_L
    assert end_s[0] == 280.0  # on notice, two minutes before
    assert start_s[1] >= 700.0
    assert end_s[-1] == result.end_s == pytest.approx(start_s[1] + 720.0)
    assert result.up_s_KA.sum(axis=0).tolist() == pytest.approx([result.end_s - 300.0])
    assert result.idle_s_A.tolist() == pytest.approx([result.end_s - 300.0 - 1000.0])


def test_without_notice_what_is_not_in_a_checkpoint_is_lost() -> None:
    shares = ((400.0, 1.0), (300.0, 0.0), (1e9, 1.0))
    faults = Faults(checkpoint_every_s=150.0)
    kept = run(Capacity("v100", shares, notice_s=0.0), Job(0, "net", 1000.0), servers=1, faults=faults)
    assert kept.leases.busy_s_L.sum() == pytest.approx(1000.0)  # drained and lost at one moment: it stops in time
    slow = run(Capacity("v100", shares, 0.0), Job(0, "net", 1000.0), servers=1, faults=faults, rules=CHECKPOINTS)
    assert slow.leases.busy_s_L.sum() == pytest.approx(1100.0)  # back to the checkpoint at 300 s
    warned = run(
        Capacity("v100", shares, 90.0), Job(0, "net", 1000.0), servers=1, faults=faults, rules=CHECKPOINTS
    )
    assert warned.leases.busy_s_L.sum() == pytest.approx(1000.0)


def test_changes_repeat_and_end() -> None:
    changes = Capacity("v100", ((1e8, 0.5), (1e8, 0.25))).changes()
    assert list(changes) == [(0.0, 0.5), (1e8, 0.25), (2e8, 0.5), (3e8, 0.25)]
    assert list(Capacity("v100", ((10.0, 1.0),)).changes()) == []
    assert list(Capacity("v100", ((10.0, 0.5), (10.0, 0.5))).changes()) == [(0.0, 0.5)]
    assert HORIZON_S > 3e8


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_comes_and_goes_all_jobs_complete_and_the_books_add_up(seed: int) -> None:
    random = np.random.default_rng(seed)
    servers = int(random.integers(1, 6))
    shares = [(float(random.exponential(2000.0) + 1.0), float(random.integers(0, 6) / 5)) for _ in range(8)]
    capacity = Capacity(
        "v100", (*shares, (20_000.0, 1.0)), notice_s=float(random.choice([0.0, 30.0, 120.0, 5000.0]))
    )
    jobs = [Job(n, "net", float(random.uniform(1, 8000)), arrival_s=500.0 * n) for n in range(8)]
    overheads = Overheads(Overhead(float(random.choice([0.0, 60.0])), 30.0))
    result = run(
        capacity,
        *jobs,
        servers=servers,
        rules=replace(DEFAULT, overheads=overheads),
        faults=Faults(
            seed=seed, late=0.2 * (seed % 2), lost=0.1 * (seed % 2), doubled=0.1 * (seed % 2), until_s=1e5
        ),
    )
    assert result.summary()["jobs_completed"] == len(jobs)
    there = [(0.0, 1.0), *islice(capacity.changes(), 200)]
    time_s_K, busy_KA = result.busy_devices()
    for (from_s, share), (until_s, _) in pairwise([*there, (HORIZON_S, 0.0)][:200]):
        during = busy_KA[(time_s_K >= from_s) & (time_s_K < until_s), 0]
        assert during.max(initial=0) <= servers * share + 1e-9, (from_s, share)
