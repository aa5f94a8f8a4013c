"""The figures of estimated modern speeds, on a few cells."""

import pytest

from experiments import modern_speeds
from experiments.modern_speeds import hidden_sets, model_of, plain_roofline, ratio, rows, score, truth
from gavelx.throughputs import Setting


def test_the_rivals_are_what_they_say() -> None:
    known = {Setting("resnet-bs8", "a100-80gb-sxm"): 10.0, Setting("resnet-bs8", "v100-16gb-sxm"): 5.0}
    wanted = [Setting("resnet-bs8", "h100-80gb-sxm"), Setting("other-bs8", "h100-80gb-sxm")]
    said = ratio(known, wanted)
    assert list(said) == wanted[:1]
    assert said[wanted[0]][0] == pytest.approx(1000 * (10 / 312 * 5 / 125) ** 0.5, rel=0.05)
    mine = Setting("gpt-1b-pretrain-bs8", "a100-80gb-sxm")
    assert plain_roofline({mine: 2.0}, [mine])[mine][0] == pytest.approx(2.0)


def test_models_are_hidden_whole() -> None:
    cells = truth()
    for regime, hidden in hidden_sets(cells):
        models, types = {model_of(way) for way in hidden}, {way.accelerator for way in hidden}
        assert hidden <= set(cells)
        if regime == "a new device":
            assert not types & {way.accelerator for way in cells if way not in hidden}
        if regime.startswith("a new model"):
            assert not models & {model_of(way) for way in cells if way not in hidden}


def test_our_estimates_are_better_than_both_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {way: speed for n, (way, speed) in enumerate(truth().items()) if n % 6 == 0}
    monkeypatch.setattr(modern_speeds, "FOLDS", 2)
    for row in rows(score(few)):
        mine, rival, held = (float(row[n].rstrip("%")) for n in (3, 6, 5))
        assert held >= 75.0, row
        if row[0] == "a job on a device":
            assert mine < rival, row
