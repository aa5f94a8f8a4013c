"""What the thesis ran: clusters, loads, prices, and its policies beside ours.

Jobs of one device each, drawn by the published recipe with seeds 5, 8 and 9; one device a server; rounds of 360 s.
"""

from dataclasses import dataclass, replace

from experiments.points import Point
from experiments.published.thesis import Setting
from experiments.thesis.policies import INFORMED
from gavelx.published import PUBLISHED, AnyRules

SEEDS = (5, 8, 9)
PRICES = "v100=1.6,p100=1.35,k80=0.9"
CLUSTERS = ("10:5:5", "5:10:5", "5:5:10")
STATIC_JOBS = (500.0, 625.0, 750.0, 875.0, 1000.0)
COST_CLUSTER, COST_JOBS = "5:5:5", (100.0, 233.0, 366.0, 500.0)
DRAWN = {233.0: 234, 366.0: 367}
"""How many jobs there were where the file's name has fewer: 233.3 was cut for the name, and drawn past."""
RATES, WINDOW = (0.25, 0.5, 0.75, 1.0), (500, 1000)
TINY_DIVISOR = 25

SPLIT = "published, price split"
RULES: dict[str, AnyRules] = {"published": PUBLISHED, SPLIT: replace(PUBLISHED, split_price=True)}
"""By name. With the price split, jobs that share a device pay half of it each; all else is the same."""


@dataclass(frozen=True)
class Series:
    """One policy: as plots call it, as published, what of ours is run, and what to know of the difference."""

    label: str
    published: str
    policy: str
    rules: str = "published"
    note: str = ""


BRANCH = Series(
    "finish-time fairness, as in the branch",
    "finish_time_fairness",
    "agnostic(finish_time_fairness)",
    note="takes every device for a V100; the published series is not of this, as figure 6.6 shows",
)
"""Shown once: where it cannot be the published series, it is not simulated at every other setting."""
SERIES = (
    Series("AlloX", "allox", "allox"),
    Series("max-min fairness", "max_min_fairness", "agnostic(max_min_fairness)"),
    Series(
        "finish-time fairness, informed",
        "finish_time_fairness",
        INFORMED,
        note="knows true speeds, types in shuffled order: not in the published branch, but what its figures show",
    ),
    BRANCH,
    Series(
        "finish-time fairness, correct",
        "finish_time_fairness",
        "finish_time_fairness",
        note="knows true speeds, fastest type first: the baseline that the thesis should have had",
    ),
    Series("Algorithm 5.1", "shared_cloud_cost_fairness", "shared_cloud_cost_fairness_alg51"),
    Series(
        "FIFO, correct",
        "fifo",
        "fifo",
        note="the published one piles jobs on one type by a slip while two thirds of the cluster idle",
    ),
    Series(
        "Gandiva, price split",
        "gandiva",
        "gandiva",
        SPLIT,
        note="the published cost bills a shared device twice; which jobs share it is drawn by lot",
    ),
)


def point(series: Series, setting: Setting, seed: int, *, tiny: bool = False) -> Point:
    """The simulation behind one published figure and seed."""
    devices = dict(zip(("v100", "p100", "k80"), setting.cluster.split(":"), strict=True))
    static = setting.trace == "static"
    divisor = TINY_DIVISOR if tiny else 1
    return Point(
        policy=series.policy,
        cluster=",".join(f"{name}={count}" for name, count in devices.items()),
        rate=0.0 if static else setting.load,
        jobs=DRAWN.get(setting.load, round(setting.load)) // divisor if static else None,
        window=None if static else (WINDOW[0] // divisor, WINDOW[1] // divisor),
        seed=seed,
        rules=series.rules,
        prices=PRICES,
    )
