import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gavelx.report.series import busy_shares, completion_curve, device_hours
from gavelx.result import Result
from tests.report.results import result, results

NAN = float("nan")


def test_the_curve_of_a_starving_policy_ends_below_one() -> None:
    jct_h, share = completion_curve(result(completion_h=(2.5, NAN, 1.0, NAN)))
    assert jct_h.tolist() == [1.0, 2.5]
    assert share.tolist() == [0.25, 0.5]


def test_only_measured_jobs_are_in_the_curve() -> None:
    jct_h, share = completion_curve(result(completion_h=(1.0, 2.0, 3.0), measured=slice(1, 3)))
    assert jct_h.tolist() == [2.0, 3.0]
    assert share.tolist() == [0.5, 1.0]


def test_busy_shares_by_hand() -> None:
    run = result(((0, 0, 1, 0.0, 1.0), (1, 1, 2, 0.5, 1.5)), cluster="v100=2,k80=4")
    edges_h, share_BA = busy_shares(run, 2 * 3600.0, 4)
    assert edges_h.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    np.testing.assert_allclose(share_BA, [[0.5, 0.0], [0.5, 0.5], [0.0, 0.5], [0.0, 0.5]], atol=1e-12)


@given(results(), st.integers(1, 50))
def test_bins_lose_no_device_time(run: Result, bins: int) -> None:
    edges_h, share_BA = busy_shares(run, run.end_s, bins)
    hours_A = (share_BA * run.cluster.devices_A * np.diff(edges_h)[:, None]).sum(axis=0)
    expected_A = np.where(run.cluster.devices_A > 0, device_hours(run), hours_A)
    np.testing.assert_allclose(hours_A, expected_A, rtol=1e-6, atol=1e-6)


def test_cost_is_unknown_only_where_a_type_was_used() -> None:
    run = result(((0, 0, 2, 0.0, 3.0),), usd_per_hour=(2.0, NAN))
    assert run.cost_usd_A.tolist() == [12.0, 0.0]
    assert np.isnan(result(usd_per_hour=(NAN, 0.5)).cost_usd_A[0])


def test_costs_by_type_add_up_to_the_cost_of_the_run() -> None:
    run = result()
    assert run.cost_usd_A.sum() == run.summary()["cost_usd"] == 1 * 2.0 + 2 * 2.0 * 0.5
