"""Who bids, who wins, what winners pay, and what becomes of the rest.

Legend: J jobs, B bidders, A accelerator types, N devices.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from gavelx.errors import PolicyError
from gavelx.policies import Themis
from gavelx.policies.baselines.themis import auction
from gavelx.policies.greedy import usable_throughput_JA
from gavelx.snapshot import Snapshot
from tests.policies.instants import instant
from tests.policies.strategies import snapshots

ONE = {"v100": 1}


def test_a_bidder_without_rivals_pays_nothing() -> None:
    allocation = Themis().allocate(instant(ONE, [[1.0]]))
    assert allocation.share_JA.tolist() == [[1.0]]
    assert allocation.execution.refresh_s == 1200.0


def test_two_like_jobs_share_as_the_auction_has_it() -> None:
    """Done after 100 s with the lease and 200 s without, either harms the other by a factor of 2.

    So the winner keeps half of the lease, and the loser gets what is left over.
    """
    allocation = Themis(fairness=0.0, lease_s=100.0).allocate(instant(ONE, [[1.0]] * 2, [100.0, 100.0]))
    np.testing.assert_allclose(allocation.share_JA, [[0.5], [0.5]], rtol=1e-6)


def test_only_the_worst_off_bid() -> None:
    """The same work, an hour older: at 0.8 one of five bids, without a rival; at 0 all do, and the winner pays."""
    snapshot = instant(ONE, [[1.0]] * 5, elapsed_s=[0.0, 0.0, 3600.0, 0.0, 0.0])
    assert Themis(fairness=0.8).allocate(snapshot).share_JA.ravel().tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    worst = Themis(fairness=0.0).allocate(snapshot).share_JA.ravel()
    assert 0 < worst.max() < 1
    np.testing.assert_allclose(worst.sum(), 1.0)


def test_the_product_of_bids_is_largest() -> None:
    """Both like the v100 best, but one loses more on the k80: 1/2 against 1/1.1 of the speed."""
    snapshot = instant({"v100": 1, "k80": 1}, [[1.1, 1.0], [2.0, 1.0]], [1100.0, 2000.0])
    allocation = Themis(fairness=0.0, lease_s=1e6).allocate(snapshot)
    assert allocation.share_JA[1, 0] > 0.5
    assert allocation.share_JA[0, 1] > 0.5


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any),
)
def test_one_device_jobs_pay_just_the_harm_they_do(bids: list[list[int]], devices: list[int]) -> None:
    """c_i = prod_{k != i} V_k / prod_{k != i} V_k without i (Themis, section 5.1), found anew for each i."""
    gain_BA, devices_A = np.array(bids) / 10.0, np.array(devices)
    kept_BA = auction(gain_BA, np.ones(len(bids), dtype=np.int64), devices_A)
    won_BA = gain_BA * (kept_BA > 0)
    best = optimum(gain_BA, devices_A)
    assert won_BA.sum() == pytest.approx(best)
    for i in range(len(bids)):
        others = best - won_BA[i].sum()
        without = optimum(np.delete(gain_BA, i, axis=0), devices_A)
        expected = np.exp(others - without) if won_BA[i].any() else 0.0
        assert kept_BA[i].sum() == pytest.approx(expected, abs=1e-7)


def optimum(gain_BA: np.ndarray, devices_A: np.ndarray) -> float:
    """The largest sum of gains with one device for a bidder at most."""
    gain_BN = gain_BA.repeat(devices_A, axis=1)
    rows, columns = linear_sum_assignment(gain_BN, maximize=True)
    return float(gain_BN[rows, columns].sum())


@given(snapshots(max_jobs=20), st.sampled_from((0.0, 0.5, 0.8)))
def test_nothing_is_idle_that_anybody_could_use(snapshot: Snapshot, fairness: float) -> None:
    share_JA, T_JA = Themis(fairness).allocate(snapshot).share_JA, usable_throughput_JA(snapshot)
    left_A = snapshot.devices_A - snapshot.scale_factor_J @ share_JA
    lacks_J = share_JA.sum(axis=1) < 1 - 1e-7
    assert not ((T_JA > 0) & (left_A > 1e-7))[lacks_J].any()


def test_options_have_limits() -> None:
    with pytest.raises(PolicyError, match="fairness is 1"):
        Themis(fairness=1.0)
    with pytest.raises(PolicyError, match="lease_s is 0"):
        Themis(lease_s=0.0)
