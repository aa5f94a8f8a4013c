"""Fair share by value: worked by hand, and in whole runs. That its promises hold is for the kit to try."""

from collections import defaultdict

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.simulator.simulate import simulate
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

SPEEDS = {
    "fast": (4.0, 1.0),  # gains much from an h100
    "slow": (1.5, 1.0),
    "bound": (1.0, 1.0),  # gains nothing
}
TABLE = Throughputs(
    {
        Setting(kind, name): speed
        for kind, of in SPEEDS.items()
        for name, speed in zip(("h100", "t4"), of, strict=True)
    }
)
HOURS = 40
PRICES = Prices({"h100": 4.0, "t4": 0.5})


def usd_of(policy: str, cluster: str, *jobs: tuple[str, str]) -> dict[str, float]:
    """Dollars per hour of what each owner holds; jobs are an owner and a kind."""
    made = [Job(j, kind, 1e6, owner=owner) for j, (owner, kind) in enumerate(jobs)]
    snapshot = Snapshot.of(made, Cluster.parse(cluster), TABLE, PRICES)
    allocation = load_policy(policy).allocate(snapshot)
    assert allocation.certificate.violation < 1e-7
    held: dict[str, float] = defaultdict(float)
    for job, usd in zip(made, (allocation.share_JA * snapshot.usd_per_hour_A).sum(axis=1), strict=True):
        held[job.owner] += float(usd)
    return {owner: round(usd, 6) for owner, usd in held.items()}


FOUR_EACH = [("ml", "fast")] * 4 + [("ops", "slow")] * 4


def test_owners_hold_the_same_value_whatever_their_jobs_gain() -> None:
    # 2 h100 and 4 t4 cost 8 + 2 dollars an hour
    assert usd_of("value_fair_share", "h100=2,t4=4", *FOUR_EACH) == {"ml": 5.0, "ops": 5.0}
    assert usd_of("hierarchical(max_min_fairness)", "h100=2,t4=4", *FOUR_EACH)["ml"] > 6.0


def test_weights_divide_the_value() -> None:
    held = usd_of("hierarchical(value_fair_share, ml=2)", "h100=2,t4=4", *FOUR_EACH)
    assert held == pytest.approx({"ml": 20 / 3, "ops": 10 / 3})


def test_what_an_owner_cannot_use_goes_to_the_others() -> None:
    # one job of ml can hold one h100; ops has the other and the t4s
    held = usd_of("value_fair_share", "h100=2,t4=4", ("ml", "fast"), *[("ops", "slow")] * 5)
    assert held == pytest.approx({"ml": 4.0, "ops": 6.0})


def test_a_dear_device_is_worth_nothing_to_a_job_that_gains_nothing() -> None:
    # ml's jobs are as fast on a t4, so its part is never an h100 that ops could use
    held = usd_of("value_fair_share", "h100=1,t4=2", ("ml", "bound"), ("ml", "bound"), ("ops", "slow"))
    assert held == pytest.approx({"ml": 1.0, "ops": 4.0})


def test_types_without_devices_do_not_matter() -> None:
    speeds = {("ml", "h100"): 4.0, ("ml", "t4"): 1.0, ("ops", "h100"): 2.0, ("ops", "t4"): 1.0}
    gone = {("ml", "k80"): 3.0, ("ops", "k80"): 5.0}  # as fast and cheaper, but there is none
    jobs = [Job(j, owner, 1e5, owner=owner) for j, owner in enumerate(("ml", "ops", "ml"))]
    prices = Prices({"h100": 4.0, "t4": 1.0, "k80": 0.5})
    without, beside = (
        load_policy("value_fair_share").allocate(
            Snapshot.of(
                jobs, Cluster.parse(text), Throughputs({Setting(*way): v for way, v in of.items()}), prices
            )
        )
        for text, of in (("h100=1,t4=2", speeds), ("h100=1,t4=2,k80=0", speeds | gone))
    )
    np.testing.assert_allclose(without.throughput_J, beside.throughput_J, rtol=1e-6)


def test_jobs_without_an_owner_stand_beside_the_teams() -> None:
    held = usd_of("value_fair_share", "h100=2,t4=4", *[("", "fast")] * 4, *[("ops", "fast")] * 4)
    assert held == pytest.approx({"": 8.0, "ops": 2.0})  # ops is one of five


def test_a_job_is_never_below_its_slice() -> None:
    # ml's job can have its h100 all the time; ops's ten keep half of the cluster nevertheless
    jobs = [Job(0, "fast", 1e6, owner="ml"), *(Job(j, "slow", 1e6, owner="ops") for j in range(1, 11))]
    snapshot = Snapshot.of(jobs, Cluster.parse("h100=2,t4=2"), TABLE, PRICES)
    allocation = load_policy("value_fair_share").allocate(snapshot)
    half = (1 * 1.5 + 1 * 1.0) / 10
    assert (allocation.throughput_J[1:] >= half * (1 - 1e-8)).all()


def test_it_prints_as_what_the_command_line_reads() -> None:
    for text in ("value_fair_share", "hierarchical(value_fair_share, ml=2)", "packed(value_fair_share)"):
        assert str(load_policy(text)) == text


@pytest.mark.parametrize(
    ("policy", "ratio"), [("value_fair_share", 1), ("hierarchical(value_fair_share, ml=3)", 3)]
)
def test_a_run_spends_in_proportion(policy: str, ratio: float) -> None:
    """Over forty hours in which both owners have more jobs than devices."""
    jobs = [Job(j, ("fast", "slow")[j % 2], 1e6, owner=("ml", "ops")[j % 2]) for j in range(12)]
    leases = simulate(load_policy(policy), jobs, Cluster.parse("h100=2,t4=4"), TABLE, PRICES).leases
    within_s_L = np.minimum(leases.end_s_L, HOURS * 3600) - np.minimum(leases.start_s_L, HOURS * 3600)
    usd_L = within_s_L * leases.devices_L * np.array([4.0, 0.5])[leases.accelerator_L]
    ml, ops = usd_L[leases.job_L % 2 == 0].sum(), usd_L[leases.job_L % 2 == 1].sum()
    assert ml + ops == pytest.approx(10 * HOURS * 3600)
    assert ml / ops == pytest.approx(ratio, rel=0.05)
