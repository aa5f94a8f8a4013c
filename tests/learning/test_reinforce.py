"""DL2's two stages: the copy does as its teacher, and the same seed gives the same weights, also in parts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gavelx.learning.lessons import Lesson
from gavelx.policies.dl2 import Reads
from gavelx.policies.network import Network
from gavelx.slots.baselines import drf
from gavelx.slots.greedy import Steps
from gavelx.slots.model import Schedule
from tests.learning.test_lessons import CLUSTER, TABLE, jobs

torch = pytest.importorskip("torch")
from gavelx.learning.actor_critic import ActorCritic, Options  # noqa: E402
from gavelx.learning.course import Course, course, course_in  # noqa: E402
from gavelx.learning.evaluate import evaluated, schedule_by  # noqa: E402
from gavelx.learning.lessons import lesson_of  # noqa: E402
from gavelx.learning.reinforce import Reinforced, reinforcement  # noqa: E402
from gavelx.learning.supervised import agreement, arrays_of, cloned, demonstrated, multilayer  # noqa: E402

READS = Reads(("m",), ("a",), 6, 10.0)


def lesson(number: int) -> Lesson:
    random = np.random.default_rng(number)
    traces = [jobs(*random.uniform(50.0, 400.0, 5)) for _ in range(2)]
    return lesson_of(traces, CLUSTER, TABLE, slot_s=10.0, teacher="drf")


@pytest.mark.slow
def test_a_copy_does_as_its_teacher_and_the_same_without_torch() -> None:
    taught, unseen = lesson(0), lesson(1)
    window = READS.window(taught.moves, taught.types)
    seen = demonstrated(window, taught.slots, drf(Steps.hull(taught.slots.sizes, taught.moves.room_R)))
    network = cloned(window, seen, steps=60)
    other = READS.window(unseen.moves, unseen.types)
    assert agreement(other, network, demonstrated(other, unseen.slots, unseen.teacher)) >= 0.85
    net = multilayer(window.inputs, window.actions)
    with torch.no_grad():
        theirs = net(torch.from_numpy(seen.x_nI)).numpy()
    ones_I = np.ones(window.inputs, dtype=np.float32)
    np.testing.assert_allclose(arrays_of(net, ones_I).outputs(seen.x_nI), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_course_in_parts_ends_with_the_same_weights(tmp_path: Path) -> None:
    def followed(rounds: int, after: Course | None = None) -> Course:
        last = after.last if after is not None else None
        assert last is None or isinstance(last, Reinforced)
        taught = reinforcement(lesson, READS, rounds=rounds, steps=20, after=last)
        *_, reached = course(taught, lesson(99), after)
        return reached

    whole, half = followed(2), followed(1)
    (tmp_path / "checkpoint").write_bytes(half.to_bytes({}))
    again = followed(2, course_in(tmp_path / "checkpoint", {}, Reinforced.of))
    assert again.curve == whole.curve
    assert [point.round for point in whole.curve] == [0, 1, 2]
    assert again.last.network.to_bytes() == whole.last.network.to_bytes()
    assert again.best.to_bytes() == whole.best.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [{}, {"critic": False, "replay": 0}])
def test_what_is_earned_is_learned(left_out: dict[str, float]) -> None:
    """A network that would rather stop learns to hand out devices."""
    first = lesson(0)
    window = READS.window(first.moves, first.types)
    still = Network(np.zeros(window.inputs), np.ones(window.inputs, dtype=np.float32), *_stopping(window.actions))
    learner = ActorCritic(window, still, Options(rate=3e-3, entropy=0.0, batch=64, **left_out), seed=1)  # type: ignore[arg-type]
    before_s = evaluated(_schedule(learner), first).network_s_K.mean()
    for number in range(1, 4):
        learner.play(lesson(number).slots, most=60)
    assert evaluated(_schedule(learner), first).network_s_K.mean() < 0.7 * before_s


def test_a_round_that_is_much_worse_is_undone() -> None:
    first = lesson(0)
    window = READS.window(first.moves, first.types)
    begin = cloned(window, demonstrated(window, first.slots, first.teacher), steps=5)
    learner = ActorCritic(window, begin, Options(rate=0.1))
    learner.judged(1.0, 0.02)
    learner.play(lesson(1).slots, most=30)
    drifted = learner.network.to_bytes()
    learner.judged(1.01, 0.02)
    assert learner.network.to_bytes() == drifted
    learner.judged(1.5, 0.02)
    np.testing.assert_array_equal(learner.network.weights[0], begin.weights[0])


def _stopping(actions: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    random = np.random.default_rng(0)
    inputs = READS.jobs * 5
    weights = [0.1 * random.normal(size=one).astype(np.float32) for one in ((inputs, 16), (16, actions))]
    bias = np.zeros(actions, dtype=np.float32)
    bias[-1] = 3.0
    return tuple(weights), (np.zeros(16, dtype=np.float32), bias)


def _schedule(learner: ActorCritic) -> Schedule:
    return schedule_by(replace(learner.network, note=READS.note), lesson(0))
