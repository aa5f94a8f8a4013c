"""Every policy of the catalog, and modifiers of some, through the kit that other people's policies go through."""

from typing import Any

import pytest

from gavelx.policies import catalog, load_policy, modifiers
from gavelx.testing import PolicyConformance

pytestmark = pytest.mark.slow

SAID: dict[str, dict[str, Any]] = {
    "allox": {  # the order of jobs and of names decides among equally good plans
        "gangs": False,
        "test_the_order_of_jobs_does_not_matter": None,
        "test_the_names_of_types_do_not_matter": None,
    },
    "deadlines": {"unique": False},
    "fifo_program": {"unique": False},
    "gandiva": {"by_the_clock": True},  # it draws by the time
    "isolated": {"idle_slices": True},
    "max_sum_throughput": {"unique": False},
    "min_cost": {"unique": False},
    "min_cost_slo": {"unique": False},
    "nash_welfare": {"tolerance": 1e-4},
    "ones_published": {  # it draws by the time; 20 generations of 64, however few jobs: 50 times as long is usual
        "by_the_clock": True,
        "unique": False,
        "patience": 300.0,
    },
    "proportional": {"idle_slices": True},
    "shared_cloud_cost_fairness": {
        "unique": False
    },  # a cheap device is worth the same to all whom it is cheapest for
    "shared_cloud_cost_fairness_alg51": {  # as printed: it adds dollars to seconds, and treats V100s apart
        "unique": False,
        "idle_slices": True,
        "amounts": ("usd",),
        "test_the_names_of_types_do_not_matter": None,
    },
    "random": {"by_the_clock": True},
    "serial_fifo": {"test_many_jobs_are_served": None},  # one after the other
    "strategy_proof": {"tolerance": 1e-4, "patience": 1000.0, "examples": 6},  # one program for each job
}
"""What a test class says about its policy, beyond ``unique = True``; a modified policy is like its inner one."""
QUICK = ("max_min_fairness", "makespan", "max_sum_throughput", "isolated", "fifo", "allox", "nash_welfare")
PROGRAMS = ("max_min_fairness", "makespan", "max_sum_throughput", "nash_welfare", "min_cost_slo")
MODIFIED = {
    "agnostic": [f"agnostic({name})" for name in QUICK],
    "budgeted": [f"budgeted({name}, total=4)" for name in ("max_min_fairness", "isolated", "fifo")],
    "guarded": ["guarded(fifo, srtf)"],
    "lookahead": ["lookahead(elastic(max_min_fairness), srtf)"],
    "hierarchical": ["hierarchical(max_min_fairness, a=2, b=fifo)", "hierarchical(value_fair_share, ml=2)"],
    "optimistic": ["optimistic(max_min_fairness)"],
    "elastic": [f"elastic({name})" for name in ("max_min_fairness", "makespan", "nash_welfare", "fifo", "srtf")]
    + ["elastic(goodput)", "elastic(pollux)", "elastic(srtf_program)", "elastic(ones)", "elastic(ones_published)"]
    + ["elastic(easyscale)", "elastic(optimus)"]
    + ["elastic(packed(placed(max_min_fairness)))", "agnostic(elastic(max_min_fairness))"],
    "packed": [f"packed({name})" for name in PROGRAMS] + ["agnostic(packed(max_min_fairness))"],
    "capped": ["capped(shared_cloud_cost_fairness, 1.5)"],
    "partitioned": [
        "partitioned(max_min_fairness, 2)",
        "partitioned(packed(max_min_fairness), 2)",
        "partitioned(elastic(max_min_fairness), 2)",
    ],
    "placed": ["placed(max_min_fairness)", "packed(placed(max_min_fairness))"],
    "robust": ["robust(max_min_fairness)", "robust(packed(makespan))"],
    "with_constraints": ["with_constraints(max_min_fairness, Cost() <= 4)"],
}
"""Which policies each modifier is tried on."""


def conformance_of(text: str) -> type[PolicyConformance]:
    """The kit's class for the policy that ``text`` describes."""
    said = {"unique": True, "policy": load_policy(text), "examples": 3 if "(" in text else 6}
    for name, attributes in SAID.items():
        if name == text or f"({name})" in text or f"({name}," in text:
            said |= attributes
    if "Cost()" in text or "budgeted" in text:  # a budget is in dollars
        said |= {"amounts": ("usd",)}
    if "agnostic(packed" in text:  # in which pairs a job has its time is open where all types are one
        said |= {"unique": False}
    if (
        "lookahead" in text or "guarded" in text
    ):  # it plays hundreds of slots, and a heavier job may be why another plan is best
        said |= {"examples": 1, "patience": 1000.0, "test_a_heavier_job_is_never_worse_off": None}
    if "guarded" in text:  # between two answers weights decide, and neither of these two looks at them
        said |= {"test_weights_count": None}
    if "a=2" in text:  # it names an owner
        said |= {"test_the_names_of_owners_do_not_matter": None}
    if "partitioned" in text:  # jobs are dealt out by their kinds, priorities and numbers
        said |= {"unique": False, "test_the_order_of_jobs_does_not_matter": None}
        said |= {
            "test_a_heavier_job_is_never_worse_off": None,
            "test_weights_count": None,
        }  # in parts of their own
    return type(f"Test_{text}", (PolicyConformance,), said)


EVERY = (*catalog(), *(text for texts in MODIFIED.values() for text in texts))
globals().update({f"Test_{text}": conformance_of(text) for text in EVERY})


def test_every_modifier_is_tried() -> None:
    assert MODIFIED.keys() == modifiers().keys()
