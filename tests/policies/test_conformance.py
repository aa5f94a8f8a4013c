"""Every policy of the catalog, through the kit that other people's policies go through."""

from gavelx.policies import catalog, load_policy
from gavelx.testing import PolicyConformance

NOT_UNIQUE = ("max_sum_throughput",)
"""Policies whose optimum can be had with several throughputs."""
IDLE_SLICES = ("isolated",)


def conformance_of(text: str) -> type[PolicyConformance]:
    """The kit's class for the policy that ``text`` describes."""
    attributes = {
        "policy": load_policy(text),
        "unique": not any(name in text for name in NOT_UNIQUE),
        "idle_slices": any(name in text for name in IDLE_SLICES),
    }
    return type(f"Test_{text}", (PolicyConformance,), attributes)


EVERY = (*catalog(), *(f"agnostic({name})" for name in catalog()))
globals().update({f"Test_{text}": conformance_of(text) for text in EVERY})
