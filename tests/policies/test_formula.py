"""Formulas as text: what prints can be read, and what cannot be read is named."""

import re

import pytest

from gavelx.errors import PolicyError
from gavelx.policies import Cost, load_policy, read_formula


@pytest.mark.parametrize(
    "text",
    [
        "Maximize(Worst(NormalizedThroughput()))",
        "Maximize(SumThroughput() - 2 * Cost(), [NormalizedThroughput() >= 0.9, Cost() <= 40])",
        "Minimize(Largest(TimeLeft()), [Cost() <= 3], then=Worst(NormalizedThroughput()))",
        "Maximize(Sum(Log(Throughput())), [FinishTimeRatio() <= 1.5])",
        "Minimize(Sum(Overpaid(1.5)), [Throughput() >= NeededThroughput()])",
        "Maximize(Sum(QueuePosition()) - Cost())",
        "Maximize(SumThroughput() - 0.12345678 * Cost(), [Cost() <= 1234567.89])",
    ],
)
def test_a_program_is_read_as_it_prints(text: str) -> None:
    assert repr(load_policy(text)) == text


def test_terms_and_constraints_are_read() -> None:
    assert read_formula(" 2*Cost() + 1 <= 40 ").__repr__() == (2 * Cost() + 1 <= 40).__repr__()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Maximize(Wrost(Cost()))", "Worst"),
        ("Maximize(Cost)", "Cost(), with brackets"),
        ("Maximize(Worst())", "expected Worst(term"),
        ("Maximize(Linear())", "unknown term"),
        ("Maximize()", "expected Maximize(objective, constraints"),
        ("Maximize(__import__('os').system('true'))", "__import__"),
        ("Maximize(Cost().__class__)", "__class__"),
        ("Maximize(Cost() if 1 else 2)", "not understood"),
        ("Maximize(1 < Cost() < 2)", "not understood"),
        ("Maximize(Cost() ** 2)", "not understood"),
        ("Maximize('Cost()')", "not understood"),
        ("Maximize(Cost(1, 2, 3))", "argument"),
        ("Maximize(Cost(),", "cannot be read"),
        ("Maximize(" + "(" * 300 + ")" * 300 + ")", "read"),
        ("Maximize(True)", "not understood"),
        ("Maximize(lambda: 1)", "not understood"),
        ("Maximize(Cost(), [1])", "no constraint"),
        ("Minimize(Cost() <= 1)", "no term"),
        ("Maximize(Term())", "Term"),
    ],
)
def test_what_is_no_formula_is_named(text: str, named: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(named)):
        load_policy(text)
