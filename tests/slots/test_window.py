"""What DL2 sees has a fixed length, and an action for which there is no room is never taken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.dl2.world import place, room, sizes, traces, window
from gavelx.slots.model import NONE, Slots
from gavelx.slots.turns import Turn, in_turn
from gavelx.slots.window import Window
from tests.slots.test_moves import SLOT_S, drawn

JOBS = 4


def seen(seed: int, groups: int) -> tuple[Slots, Window]:
    slots, moves = drawn(seed, groups)
    return slots, Window(moves, np.array([1, 0, NONE]), np.array([10.0, 20.0, 30.0]), 2, JOBS, SLOT_S)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_no_network_hands_out_more_than_there_is(seed: int, groups: int) -> None:
    slots, window = seen(seed, groups)
    weight_IA = np.random.default_rng(seed).normal(size=(window.inputs, window.actions))
    weight_IA[:, -1] = -10.0  # to stop
    size_KJ = in_turn(slots, window.moves, window.best(lambda x_KI: x_KI @ weight_IA))
    assert (slots.use_KR(size_KJ) <= slots.room_KR + 1e-9).all()
    assert (size_KJ[:, JOBS:] == NONE).all()
    assert not window.moves.allowed_KJM(slots, size_KJ)[:, :JOBS].any(), "it stopped where there was room"


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_what_leads_to_a_schedule_ends_there(seed: int, groups: int) -> None:
    slots, window = seen(seed, groups)
    score = np.random.default_rng(seed).normal(size=(window.inputs, window.actions))
    target_KJ = in_turn(slots, window.moves, window.best(lambda x_KI: x_KI @ score))
    np.testing.assert_array_equal(in_turn(slots, window.moves, window.towards(target_KJ)), target_KJ)


def test_the_inputs_by_hand() -> None:
    slots, window = seen(5, 1)
    J = slots.kind_KJ.shape[1]
    kind_KJ = np.full(slots.kind_KJ.shape, 1)
    kind_KJ[:, 1] = 2
    slots = replace(slots, kind_KJ=kind_KJ, time_s=300.0, left_KJ=np.full(kind_KJ.shape, 60.0))
    size_KJ = np.full(kind_KJ.shape, NONE)
    size_KJ[:, 0] = window.moves.next_NWM[1, -1, 0]
    x_WF = window.seen(slots, size_KJ)[0].reshape(JOBS, window.wide)
    held = float(slots.sizes.use_NVR[1, size_KJ[0, 0], 0] / window.moves.room_R[0])
    np.testing.assert_allclose(x_WF[0], [1.0, 0.0, 3.0, 3.0, held, 1.0], rtol=1e-6)
    np.testing.assert_allclose(x_WF[1], [0.0, 0.0, 3.0, 2.0, 0.0, 0.0], rtol=1e-6)
    assert not x_WF[J:].any()


def test_a_choice_without_room_is_an_assertion() -> None:
    slots, window = seen(5, 1)
    with pytest.raises(AssertionError, match="without room"):
        in_turn(slots, window.moves, lambda turn: np.zeros(len(turn.row_K), dtype=np.int64))


def test_poor_states_are_mended() -> None:
    """Several workers without a server, servers without a worker, many more of one; and no room, no move."""
    torch_free = pytest.importorskip("gavelx.learning.actor_critic", exc_type=ImportError)
    seen_by = window(6, sizes(), jobs=5)
    slots = Slots.of(sizes(), room(6), np.full((1, 5), 4), np.full((1, 5), 1e6))

    def mended(*counts: tuple[int, int]) -> tuple[int, int] | None:
        size_KJ = np.full((1, 5), NONE)
        size_KJ[0, : len(counts)] = [place(*one) if any(one) else NONE for one in counts]
        allowed_KJM = seen_by.moves.allowed_KJM(slots, size_KJ)
        move = int(torch_free.mends(seen_by, Turn(slots, size_KJ, allowed_KJM, np.arange(1)))[0])
        return None if move == NONE else divmod(move, 3)

    assert mended((1, 0), (3, 2)) is None
    assert mended((1, 1), (2, 0)) == (1, 1)
    assert mended((0, 2)) == (0, 0)
    assert mended((1, 11)) == (0, 0)
    assert mended((12, 2), (0, 2)) is None, "twelve workers hold all GPUs"
    assert mended((11, 1)) == (0, 1)


def test_a_trace_in_which_nothing_is_bundled_has_no_pairs() -> None:
    slots = traces([1], 4)
    single = window(4, slots.sizes, bundle=False)
    live = slots.take(np.array([0]))
    allowed_KJM = single.moves.allowed_KJM(live, np.full(live.kind_KJ.shape, NONE))
    assert not allowed_KJM[:, :, 2].any()
