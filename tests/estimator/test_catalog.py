"""Estimators by name, ours and those of other packages."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from experiments.estimation.baselines.column_mean import ColumnMean
from gavelx.errors import OptionError
from gavelx.estimator import estimators, make_estimator
from gavelx.estimator.completion import Completion


def plug_in(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    entry = EntryPoint(name, value, "gavelx.estimators")

    def found(group: str, **match: Any) -> list[EntryPoint]:
        return [entry] if match.get("name", name) == name else []

    monkeypatch.setattr("gavelx.estimator.catalog.entry_points", found)


def test_ours() -> None:
    assert set(estimators()) == {"completion", "combined"}
    assert isinstance(make_estimator(), Completion)


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(OptionError, match="did you mean 'completion'"):
        make_estimator("complete_tion")


def test_one_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "theirs", "experiments.estimation.baselines.column_mean:ColumnMean")
    assert isinstance(make_estimator("theirs"), ColumnMean)


@pytest.mark.parametrize("value", ["no.such.module:Thing", "math:pi", "gavelx.spelling:meant"])
def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    plug_in(monkeypatch, "broken", value)
    assert "broken" in estimators()
    with pytest.raises(OptionError, match="entry point broken"):
        make_estimator("broken")


def test_others_cannot_take_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "completion", "experiments.estimation.baselines.column_mean:ColumnMean")
    assert isinstance(make_estimator("completion"), Completion)
