"""A course: rounds of learning, each measured on traces of its own, with a checkpoint from which it goes on.

A checkpoint is a plain .npz: the settings of the course, its curve, the best network and the last, and what the
learner needs to go on. A course that goes on ends with the very weights of one that was never interrupted.
"""

import io
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np

from gavelx.errors import UserError
from gavelx.learning.evaluate import evaluated, schedule_by
from gavelx.learning.lessons import Lesson
from gavelx.policies.network import Network

Settings = dict[str, Any]


class Last(Protocol):
    """How far a learner has come: its rounds, its network, what it has seen, and all that it needs to go on."""

    @property
    def number(self) -> int: ...
    @property
    def network(self) -> Network: ...
    @property
    def moves(self) -> int: ...
    def arrays(self) -> dict[str, Any]: ...


Read = Callable[[int, Network, Mapping[str, Any]], Last]
"""A learner from its number of rounds, its network and its arrays."""


class Point(NamedTuple):
    """A round on the curve: the moves seen so far, and mean completion on the validation traces, in seconds.

    Of a network that decides on one action at a time, moves are its decisions.
    """

    round: int
    moves: int
    network_s: float
    teacher_s: float
    greedy_s: float


@dataclass(frozen=True, eq=False)
class Course:
    """How far a course has come. ``best`` is the network of the round with the least mean completion."""

    curve: tuple[Point, ...]
    best: Network
    last: Last

    @property
    def best_round(self) -> int:
        return min(self.curve, key=lambda point: point.network_s).round

    def to_bytes(self, settings: Settings) -> bytes:
        """The content of a checkpoint."""
        said = {"settings": settings, "curve": self.curve, "number": self.last.number}
        arrays = {"said": np.array(json.dumps(said)), **self.last.arrays()}
        for name, network in (("best", self.best), ("last", self.last.network)):
            arrays[name] = np.frombuffer(network.to_bytes(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        return buffer.getvalue()


def course_in(path: str | Path, settings: Settings, read: Read) -> Course:
    """The course in a checkpoint. Raises :class:`UserError` if it holds none, or one of other settings."""
    where, expected = str(path), "a checkpoint that the same command wrote"
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as arrays:
            said = json.loads(str(arrays["said"]))
            best, last = (Network.from_bytes(arrays[name].tobytes(), where) for name in ("best", "last"))
            curve, before = tuple(Point(*point) for point in said["curve"]), dict(said["settings"])
            _check_same(before, settings, where)
            last_round = read(int(said["number"]), last, arrays)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=where, expected=expected) from error
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise UserError(f"holds no course: {error}", where=where, expected=expected) from error
    return Course(curve, best, last_round)


def _check_same(before: Settings, settings: Settings, where: str) -> None:
    for name in settings:
        if before.get(name) != settings[name]:
            problem = (
                f"it was learned with {name}={before.get(name)!r}, and now {name}={settings[name]!r} is asked"
            )
            raise UserError(problem, where=where, expected="the same options", hint="another --checkpoint")


def course(
    rounds: Generator[Last, float, None], validation: Lesson, after: Course | None = None
) -> Iterator[Course]:
    """A round after the other, each measured, from where ``after`` ended.

    What a round is worth is sent back to ``rounds``: mean completion on the validation traces.
    """
    last = next(rounds, None)
    while last is not None:
        if after is None or last.number > after.last.number:
            found = evaluated(schedule_by(last.network, validation), validation)
            point = Point(last.number, last.moves, *(float(one_K.mean()) for one_K in found))
            least_s = min((one.network_s for one in after.curve), default=np.inf) if after else np.inf
            best = last.network if after is None or point.network_s < least_s else after.best
            after = Course((*(after.curve if after else ()), point), best, last)
            yield after
        try:
            last = rounds.send(after.curve[-1].network_s)
        except StopIteration:
            return
