import doctest

import pytest

from gavelx.report import words


def test_examples() -> None:
    assert doctest.testmod(words).failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.00"), (9.994, "9.99"), (9.996, "10.0"), (999.96, "1,000"), (123456.0, "123,456")],
)
def test_number_keeps_about_three_digits(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_an_unknown_cost_is_said_to_be_unknown() -> None:
    assert words.dollars(None) == "unknown"


def test_short_never_exceeds_its_length() -> None:
    assert [len(words.short("x" * n, 10)) for n in (9, 10, 11, 50)] == [9, 10, 10, 10]
