"""Every policy of the catalog, and modifiers of some, through the kit that other people's policies go through."""

from typing import Any

from gavelx.policies import catalog, load_policy, modifiers
from gavelx.testing import PolicyConformance

SAID: dict[str, dict[str, Any]] = {
    "isolated": {"idle_slices": True},
    "max_sum_throughput": {"unique": False},
}
"""What a test class says about its policy, beyond ``unique = True``; a modified policy is like its inner one."""
MODIFIED = {
    "agnostic": tuple(catalog()),
}
"""Which policies each modifier is tried on."""


def conformance_of(text: str) -> type[PolicyConformance]:
    """The kit's class for the policy that ``text`` describes."""
    said = {"unique": True, "policy": load_policy(text), "examples": 10 if "(" in text else 25}
    for name, attributes in SAID.items():
        if text == name or f"({name}" in text:
            said |= attributes
    return type(f"Test_{text}", (PolicyConformance,), said)


EVERY = (*catalog(), *(f"{modifier}({inner})" for modifier, names in MODIFIED.items() for inner in names))
globals().update({f"Test_{text}": conformance_of(text) for text in EVERY})


def test_every_modifier_is_tried() -> None:
    assert MODIFIED.keys() == modifiers().keys()
