"""Reinforcement makes likelier what turned out better, with the same weights from the same seed."""

import numpy as np
import pytest

from gavelx.slots.moves import FEATURES

torch = pytest.importorskip("torch")
from gavelx.learning import adapt  # noqa: E402
from gavelx.learning.adapt import PLAYS, Draws, Played, _advantages, adapted  # noqa: E402
from gavelx.learning.evaluate import evaluated, schedule_by  # noqa: E402
from gavelx.learning.imitate import as_arrays, perceptron  # noqa: E402
from tests.learning.test_imitate import lesson  # noqa: E402


def test_what_is_to_come_counts_against_the_other_plays_of_a_trace() -> None:
    cost_KT = np.array([[1.0, 2.0]] * PLAYS + [[5.0, 5.0]] * PLAYS)
    cost_KT[1] = [1.0, 4.0]
    place_n = np.array([0, 300, 301, 300 * PLAYS])
    empty = np.zeros((4, 1))
    draws = Draws(empty[:, :, None].astype(np.float32), empty > 0, np.zeros(4, int), empty[:, 0], place_n)
    advantage_n = _advantages(Played(draws, cost_KT))
    raw_n = np.array([0.9 * 0.5, -0.9 * 1.5, -1.5, 0.0])
    np.testing.assert_allclose(advantage_n, raw_n / raw_n.std(), rtol=1e-6)


@pytest.mark.slow
def test_a_network_by_chance_becomes_better_and_the_same_from_the_same_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapt, "RATE", 3e-3)
    torch.manual_seed(0)
    begin = as_arrays(perceptron(), torch.zeros(FEATURES), 0.3 * torch.ones(FEATURES))
    networks = []
    for rounds in (5, 1, 1):
        network = begin
        for number in range(rounds):
            one = lesson(number)
            network = adapted(network, (one.slots, one.moves, one.slot_s), seed=number)
        networks.append(network)
    assert networks[1].to_bytes() == networks[2].to_bytes()
    unseen = lesson(100)
    found = [evaluated(schedule_by(one, unseen), unseen) for one in (begin, networks[0])]
    before, after = (one.network_s_K.mean() for one in found)
    assert after < 0.9 * before
