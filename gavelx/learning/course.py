"""A course: rounds of imitation, each measured on traces of its own, with a checkpoint from which it goes on.

A checkpoint is a plain .npz: the settings of the course, its curve, the best network and the last, all moves seen,
and the state of the generator of random numbers. A course that goes on ends with the very weights of one that was
never interrupted.
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from gavelx.errors import UserError
from gavelx.learning.evaluate import evaluated
from gavelx.learning.imitate import Round, Seen, imitation
from gavelx.learning.lessons import Lesson
from gavelx.policies.network import Network

Settings = dict[str, Any]


class Point(NamedTuple):
    """A round on the curve: the moves seen so far, and mean completion on the validation traces, in seconds."""

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
    last: Round

    @property
    def best_round(self) -> int:
        return min(self.curve, key=lambda point: point.network_s).round

    def to_bytes(self, settings: Settings) -> bytes:
        """The content of a checkpoint."""
        said = {
            "settings": settings,
            "curve": self.curve,
            "number": self.last.number,
            "random": self.last.random_state,
        }
        arrays = {"said": np.array(json.dumps(said))}
        for name, network in (("best", self.best), ("last", self.last.network)):
            arrays[name] = np.frombuffer(network.to_bytes(), dtype=np.uint8)
        for n, seen in enumerate(self.last.seen):
            arrays |= {f"features{n}": seen.features_nF, f"right{n}": seen.right_n}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()


def course_in(path: str | Path, settings: Settings) -> Course:
    """The course in a checkpoint. Raises :class:`UserError` if it holds none, or one of other settings."""
    where, expected = str(path), "a checkpoint that `gavelx learn imitate` wrote"
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as arrays:
            said = json.loads(str(arrays["said"]))
            best, last = (Network.from_bytes(arrays[name].tobytes(), where) for name in ("best", "last"))
            number = int(said["number"])
            seen = tuple(Seen(arrays[f"features{n}"], arrays[f"right{n}"]) for n in range(number))
            curve = tuple(Point(*point) for point in said["curve"])
            before, random_state = dict(said["settings"]), dict(said["random"])
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=where, expected=expected) from error
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise UserError(f"holds no course: {error}", where=where, expected=expected) from error
    for name in settings:
        if before.get(name) != settings[name]:
            problem = (
                f"it was learned with {name}={before.get(name)!r}, and now {name}={settings[name]!r} is asked"
            )
            raise UserError(problem, where=where, expected="the same options", hint="another --checkpoint")
    return Course(curve, best, Round(number, last, seen, random_state))


def course(
    lesson: Callable[[int], Lesson],
    validation: Lesson,
    *,
    seed: int = 0,
    rounds: int = 3,
    steps: int = 400,
    after: Course | None = None,
) -> Iterator[Course]:
    """A round after the other, from where ``after`` ended."""
    for last in imitation(lesson, seed=seed, rounds=rounds, steps=steps, after=after.last if after else None):
        found = evaluated(last.network, validation)
        point = Point(last.number, last.moves, *(float(one_K.mean()) for one_K in found))
        least_s = min((one.network_s for one in after.curve), default=np.inf) if after else np.inf
        best = last.network if after is None or point.network_s < least_s else after.best
        after = Course((*(after.curve if after else ()), point), best, last)
        yield after
