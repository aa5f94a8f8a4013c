"""Policies about money where a price is not known: they name it, and one that nobody needs stands in no way."""

from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster, Server
from gavelx.errors import PolicyError
from gavelx.files.snapshots import snapshot_from_json, snapshot_to_json
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("net", "v100"): 4.0, Setting("net", "h100"): 9.0, Setting("net", "l4"): 1.0})
ABOUT_MONEY = (
    "min_cost",
    "min_cost_slo",
    "shared_cloud_cost_fairness",
    "shared_cloud_cost_fairness_alg51",
    "with_constraints(max_min_fairness, Cost() <= 40)",
    "budgeted(max_min_fairness, total=40)",
    "budgeted(fifo, total=40)",
    "budgeted(isolated, total=40)",
)


def instant(prices: dict[str, float], **devices: int) -> Snapshot:
    servers = [Server(n, name, count) for n, (name, count) in enumerate(devices.items()) if count]
    cluster = Cluster(tuple(servers), tuple(devices))
    return Snapshot.of([Job(j, "net", 1000.0) for j in range(3)], cluster, SPEEDS, Prices(prices))


@pytest.mark.parametrize("policy", ABOUT_MONEY)
def test_all_types_without_a_price_are_named(policy: str) -> None:
    with pytest.raises(PolicyError, match="no price is known for h100, l4") as error:
        load_policy(policy).allocate(instant({"v100": 2.0}, v100=1, h100=1, l4=1))
    assert "h100=" in str(error.value) and "l4=" in str(error.value)


@pytest.mark.parametrize("policy", ABOUT_MONEY)
def test_a_type_of_which_there_is_nothing_needs_no_price(policy: str) -> None:
    """Its last server has gone, say."""
    chosen = load_policy(policy)
    answer = chosen.allocate(instant({"v100": 2.0}, v100=2, h100=0))
    same = chosen.allocate(instant({"v100": 2.0}, v100=2))
    assert answer.throughput_J.tolist() == pytest.approx(same.throughput_J.tolist())
    assert answer.throughput_J.sum() > 0


def test_a_past_of_unknown_price_counts_on_neither_side() -> None:
    policy = load_policy("shared_cloud_cost_fairness")
    now = instant({"v100": 2.0, "h100": 6.0}, v100=1, h100=1).replace(elapsed_s_J=np.full(3, 100.0))
    dear = now.replace(spent_usd_J=np.array([5.0, 0.1, 0.1]), equal_share_usd_J=np.array([0.1, 0.1, 0.1]))
    unknown = dear.replace(spent_usd_J=np.array([np.nan, 0.1, 0.1]))
    without = dear.replace(spent_usd_J=np.array([0.0, 0.1, 0.1]), equal_share_usd_J=np.array([0.0, 0.1, 0.1]))
    answers = [policy.allocate(one).share_C for one in (unknown, without)]
    np.testing.assert_array_equal(*answers)


def test_what_is_unknown_stays_so_in_a_file() -> None:
    now = replace(instant({"v100": 2.0}, v100=1, h100=1), spent_usd_J=np.array([np.nan, 0.0, 3.0]))
    document = snapshot_to_json(now)
    assert [row["spent_usd"] for row in document["progress"]] == [None, 0.0, 3.0]
    assert document["prices"] == {"v100": 2.0, "h100": None}
    again = snapshot_from_json(document)
    np.testing.assert_array_equal(again.spent_usd_J, now.spent_usd_J)
    np.testing.assert_array_equal(again.usd_per_hour_A, now.usd_per_hour_A)
    del document["progress"][0]["spent_usd"]
    assert snapshot_from_json(document).spent_usd_J[0] == 0.0  # left out
