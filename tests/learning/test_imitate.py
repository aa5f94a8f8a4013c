"""What is learned is the same without torch, and the same from the same seed."""

import numpy as np
import pytest

from gavelx.learning.lessons import Lesson
from gavelx.policies.network import Network
from gavelx.slots.ahead import Ahead
from gavelx.slots.greedy import Steps
from gavelx.slots.model import Sizes, Slots, play
from gavelx.slots.moves import FEATURES, Moves
from gavelx.slots.turns import handed_out

torch = pytest.importorskip("torch")
from gavelx.learning.imitate import as_arrays, imitated, perceptron, seen_in  # noqa: E402

SLOT_S = 100.0


def lesson(number: int) -> Lesson:
    """Jobs that are twice as fast on three devices, some of which gain nothing from more."""
    random = np.random.default_rng(number)
    sizes = Sizes(np.array([[[1.0], [2.0], [3.0]]] * 2), np.array([[1.0, 1.4, 2.0], [1.0, 1.01, 1.02]]))
    kind_KJ = random.integers(2, size=(3, 6))
    arrival_s_KJ = SLOT_S * np.sort(random.integers(0, 8, size=(3, 6)), axis=1)
    slots = Slots.of(
        sizes, np.array([6.0]), kind_KJ, random.uniform(50.0, 400.0, (3, 6)), arrival_s_KJ=arrival_s_KJ
    )
    steps = Steps.hull(sizes, np.array([6.0]))
    return Lesson(slots, Moves.along(steps), Ahead(steps, SLOT_S), SLOT_S)


def test_without_torch_the_network_says_the_same() -> None:
    torch.manual_seed(3)
    net, random = perceptron(), np.random.default_rng(0)
    x = random.normal(size=(200, FEATURES)).astype(np.float32)
    mean_F, scale_F = torch.from_numpy(x.mean(axis=0)), torch.from_numpy(1.0 / x.std(axis=0))
    with torch.no_grad():
        theirs = net((torch.from_numpy(x) - mean_F) * scale_F)[:, 0].numpy()
    np.testing.assert_allclose(as_arrays(net, mean_F, scale_F)(x), theirs, atol=1e-6)


def test_a_student_that_hands_out_nothing_sees_what_the_teacher_does() -> None:
    taught = seen_in(lesson(0), np.random.default_rng(0))
    idle = seen_in(lesson(0), np.random.default_rng(0), lambda features: np.full(len(features), -1.0))
    np.testing.assert_array_equal(idle.features_nF, taught.features_nF)


@pytest.mark.slow
def test_a_network_learns_from_its_teacher_and_the_same_from_the_same_seed() -> None:
    first, second = (imitated(lesson, seed=1, rounds=1, steps=60) for _ in range(2))
    for one, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    unseen = lesson(100)
    untaught = Network(first.mean_F, first.scale_F, first.weights, (*first.biases[:-1], np.array([-1e3])))

    def mean_s(network: Network) -> float:
        def schedule(slots: Slots) -> np.ndarray:
            return handed_out(slots, unseen.moves, network, SLOT_S)

        played = play(unseen.slots, schedule, SLOT_S, most=60)
        return float(np.where(np.isnan(played.jct_s_KJ), 60 * SLOT_S, played.jct_s_KJ).mean())

    teacher_s = float(play(unseen.slots, unseen.teacher, SLOT_S).jct_s_KJ.mean())
    assert mean_s(first) < 1.15 * teacher_s
    assert mean_s(untaught) > 2.0 * teacher_s
