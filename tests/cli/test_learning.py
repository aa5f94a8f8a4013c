"""``gavelx learn``: what it writes, that it goes on where it stopped, and what it refuses."""

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gavelx.cli.learn_options import WorldOptions
from gavelx.cli.learning import TEST, TRAINING, VALIDATION, lesson_for
from gavelx.policies.network import Network
from gavelx.slots.moves import FEATURES
from tests.cli.running import Shell

WORLD = (
    *("--cluster", "v100=4", "--elasticity", "workers:1-2", "--arrival-rate", "6", "--slot", "7200"),
    *("--jobs", "3", "--traces", "2"),
)
LEARN = ("learn", "imitate", *WORLD, "--steps", "4")


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """A network that takes no step at all."""
    path = tmp_path / "still.npz"
    F = FEATURES
    still = Network(np.zeros(F), np.ones(F), (np.zeros((F, 1)),), (np.array([-1.0]),))
    path.write_bytes(still.to_bytes())
    return str(path)


def test_a_course_goes_on_where_it_stopped_with_the_same_weights(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    whole, parts, checkpoint, plot = (tmp_path / name for name in ("whole.npz", "parts.npz", "c", "curve.png"))
    told = shell(*LEARN, "--rounds", "2", "--out", whole, "--plot", plot, "--json")
    assert told.code == 0, told.err
    assert [one["round"] for one in told.json["rounds"]] == [1, 2]
    assert "round 2 of 2" in told.err
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert Network.load(whole).digest in told.json["policy"]

    first = shell(*LEARN, "--rounds", "1", "--out", parts, "--checkpoint", checkpoint, "--json")
    assert first.json["rounds"] == told.json["rounds"][:1]
    second = shell(*LEARN, "--rounds", "2", "--out", parts, "--checkpoint", checkpoint, "--json")
    assert "round 1 of 2" not in second.err
    assert second.json["rounds"] == told.json["rounds"]
    assert parts.read_bytes() == whole.read_bytes()

    other = shell(*LEARN, "--rounds", "2", "--seed", "1", "--out", parts, "--checkpoint", checkpoint)
    assert other.code == 2
    assert "seed=0, and now seed=1" in other.err
    checkpoint.write_bytes(b"PK\x03\x04 nothing")
    broken = shell(*LEARN, "--rounds", "2", "--out", parts, "--checkpoint", checkpoint)
    assert (broken.code, "holds no course" in broken.err) == (2, True)


def test_dl2_goes_on_where_it_stopped_with_the_same_weights(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    whole, parts, checkpoint = (tmp_path / name for name in ("whole.npz", "parts.npz", "c"))
    reinforce = ("learn", "reinforce", *WORLD, "--steps", "4", "--window", "3", "--teacher", "srtf")
    told = shell(*reinforce, "--rounds", "1", "--out", whole, "--json")
    assert told.code == 0, told.err
    assert [one["round"] for one in told.json["rounds"]] == [0, 1]
    assert told.json["policy"].startswith("dl2(")
    for rounds in ("0", "1"):
        part = shell(*reinforce, "--rounds", rounds, "--out", parts, "--checkpoint", checkpoint, "--json")
        assert part.code == 0, part.err
    assert part.json["rounds"] == told.json["rounds"]
    assert parts.read_bytes() == whole.read_bytes()
    assert shell("learn", "evaluate", whole, *WORLD, "--json").code == 0
    other = shell("learn", "evaluate", whole, *WORLD, "--cluster", "p100=4")
    assert (other.code, "a cluster of v100" in other.err) == (2, True)


def test_a_network_is_adapted_and_goes_on_where_it_stopped(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    begin, whole, parts, checkpoint = (tmp_path / name for name in ("begin.npz", "whole.npz", "parts.npz", "c"))
    assert shell(*LEARN, "--rounds", "1", "--out", begin).code == 0
    adapt = ("learn", "adapt", begin, *WORLD)
    told = shell(*adapt, "--rounds", "2", "--out", whole, "--json")
    assert told.code == 0, told.err
    assert [one["round"] for one in told.json["rounds"]] == [0, 1, 2]
    for rounds in ("1", "2"):
        part = shell(*adapt, "--rounds", rounds, "--out", parts, "--checkpoint", checkpoint, "--json")
        assert part.code == 0, part.err
    assert part.json["rounds"] == told.json["rounds"]
    assert parts.read_bytes() == whole.read_bytes()
    dl2 = tmp_path / "dl2.npz"
    reinforce = ("learn", "reinforce", *WORLD, "--steps", "4", "--window", "3", "--rounds", "0", "--out", dl2)
    assert shell(*reinforce).code == 0
    other = shell("learn", "adapt", dl2, *WORLD, "--out", parts)
    assert (other.code, "a network of DL2" in other.err) == (2, True)


def test_evaluation_needs_no_torch_and_counts_jobs_that_never_run(
    shell: Shell, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    told = shell("learn", "evaluate", weights, *WORLD, "--json")
    assert told.code == 0, told.err
    network, ahead = (told.json["schedules"][name] for name in ("network", "lookahead"))
    assert network["jct_mean_s"] > 2.0 * ahead["jct_mean_s"]
    low, high = network["interval"]
    assert low < network["to_lookahead"] < high
    assert ahead["to_lookahead"] == 0.0
    table = shell("learn", "evaluate", weights, *WORLD, "--traces", "1")
    assert (table.code, "lookahead" in table.out) == (0, True)


def test_without_torch_learning_says_what_to_install(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def without_torch(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "gavelx.learning.course":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return really(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    ran = shell(*LEARN, "--out", tmp_path / "w.npz")
    assert ran.code == 2
    assert "gavelx[train]" in ran.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--out", "missing/w.npz"), "no folder"),
        (("--out", "w.npz", "--plot", "./w.npz"), "one file is named twice"),
        (("--out", "w.npz", "--elasticity", "often"), "--elasticity"),
        (("--out", "w.npz", "--cluster", "v100"), "v100"),
    ],
)
def test_mistakes_are_found_before_learning(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    ran = shell(*LEARN, *options)
    assert ran.code == 2
    assert said in ran.err
    assert not list(tmp_path.iterdir())


def test_no_purpose_has_a_trace_of_another() -> None:
    world = WorldOptions(cluster="v100=4", jobs=3, traces=2)
    lessons = [lesson_for(world, TRAINING, n) for n in range(2)]
    lessons += [lesson_for(world, purpose) for purpose in (VALIDATION, TEST)]
    left = [tuple(row) for lesson in lessons for row in lesson.slots.left_KJ.tolist()]
    assert len(set(left)) == len(left) == 8
