"""The world of DL2 in small: the tables are made, and looking ahead is better than the published greedy."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.dl2.__main__ import NOISE, compared, main
from experiments.dl2.oracle import Oracle, by_oracle
from experiments.dl2.world import EPOCH, SLOT_S, mean_jct, pairs, place, room, sizes, traces
from gavelx.slots.baselines import drf
from gavelx.slots.greedy import Greedy, Steps
from gavelx.slots.model import NONE, chosen_at


def test_the_page(tmp_path: Path) -> None:
    assert main(["--traces", "2", "--nodes", "8", "--only", "ahead", "--out", str(tmp_path)]) == 0
    assert "| 8 nodes, noise |" in (tmp_path / "dl2.md").read_text()
    figures = json.loads((tmp_path / "dl2.json").read_text())
    assert all(len(values) == 2 for one in figures.values() for values in one.values())


def test_looking_ahead_is_better_than_single_additions() -> None:
    figures = compared(12, 0.0, 3)
    assert (figures["lookahead"] < figures["Optimus"]).all()
    assert (figures["Optimus"] < figures["DRF"]).all()


def test_no_candidate_ends_better_than_the_oracle() -> None:
    """It plays what will be, so the rest of its plan is among its plans each time."""
    begin = traces(range(3), 4, jobs=12, noise=NOISE)
    oracle = Oracle(Steps.hull(begin.sizes, room(4)), SLOT_S)
    found = by_oracle(begin, oracle)
    for weights in oracle.candidates:
        slots = begin
        while not slots.over_K.all():
            slots = slots.advance(chosen_at(slots, Greedy(oracle.steps, [weights])), SLOT_S)
        assert (found <= mean_jct(slots) * (1.0 + 1e-9)).all(), weights


def test_speeds_are_those_of_the_model() -> None:
    """resnet-50 with 2 workers and 4 servers, by the formula."""
    n = list(EPOCH).index("resnet-50")
    by_hand = 1.0 / (0.00394011 / 2 + 0.0130553 + 0.013166 * 2 / 4 + 0.000230391 * 2)
    assert sizes(rough=False).speed_NV[n, place(2, 4)] == pytest.approx(by_hand, rel=1e-9)


def test_drf_gives_pairs_within_the_room() -> None:
    slots = traces([1], nodes=4)
    seen, _ = slots.advance(np.full(slots.kind_KJ.shape, NONE), 12_000.0).live()
    size_KJ = drf(pairs(4, slots.sizes))(seen)
    assert (seen.use_KR(size_KJ) <= room(4)).all()
    servers_KJ, workers_KJ = np.divmod(size_KJ[size_KJ != NONE], 17)
    np.testing.assert_array_equal(servers_KJ, workers_KJ)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_trace_is_that_of_its_seed(seed: int) -> None:
    alone, beside = traces([seed], 8), traces([7, seed], 8)
    np.testing.assert_array_equal(alone.kind_KJ[0], beside.kind_KJ[1])
    np.testing.assert_array_equal(alone.arrival_s_KJ[0], beside.arrival_s_KJ[1])
