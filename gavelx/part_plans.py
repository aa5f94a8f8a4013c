"""Plans over parts: how many logical workers each device of a set runs, so that a step takes least time.

A job has P parts (logical workers; P is the paper's maxP). N_i devices of type i run A_i parts each, one after the
other, at C_i parts/s. The slowest device sets the time of a step, so others wait for it, and room for more than P
parts is not used::

    f     = max_i A_i / C_i                                            seconds of a step      (1a)
    sum_i N_i A_i >= P                                                                        (1b)
    waste = sum_i N_i (C_i - A_i / f) + (sum_i N_i A_i - P) / f        parts/s                (1c)
    perf  = sum_i N_i C_i - waste = P / f                              parts/s

Source: EasyScale (SC'23), section 3.4, equations 1a to 1c. As printed, equation 1c lacks the factor N_i in its
first sum: it counts the waste of one device of each type, so perf comes out too high. With the factor,
perf = P / f exactly. The artifact of the paper searches combinations of A_i; the plan here is exact: f is one
of the times k / C_i, and the least of these with room for P parts is the best.

Several executors may share a device. With m of them each is I(m) times as fast, and holds a model of its own in
memory, so the device runs m A_i parts at m C_i I(m) parts/s.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from gavelx.errors import UserError

ROUNDING = 1e-12
"""A step this much longer, relatively, is as long."""
PARTS_MOST = 65536


@dataclass(frozen=True, slots=True)
class DeviceType:
    """``count`` devices of one type, on which one executor runs ``parts_per_s`` parts/s.

    ``shared``: how fast each of 2, 3, ... executors on one device is, as a part of that: I(2), I(3), ..., as far
    as it is known; ``executors_most``: how many fit in its memory. Raises :class:`UserError` for what no device
    has.
    """

    count: int
    parts_per_s: float
    shared: tuple[float, ...] = ()
    executors_most: int = 1

    def __post_init__(self) -> None:
        if self.count < 0 or not self.parts_per_s > 0.0 or self.executors_most < 1:
            told = f"count={self.count}, parts_per_s={self.parts_per_s:g}, executors_most={self.executors_most}"
            expected = "a count of 0 or more, a speed above 0 and at least one executor"
            raise UserError(told, where="DeviceType(...)", expected=expected)
        if not all(0.0 < part <= 1.0 for part in self.shared):
            raise UserError(
                f"shared={self.shared}", where="DeviceType(...)", expected="parts of the speed: 0 to 1"
            )

    @property
    def executor_speeds(self) -> list[float]:
        """Parts/s of each executor, where there are 1, 2, ... on the device."""
        return [self.parts_per_s * part for part in (1.0, *self.shared)[: self.executors_most]]


def executors_that_fit(memory_gb: float, executor_gb: float, shared_gb: float = 0.0) -> int:
    """How many executors a device can hold, each with its own model, beside ``shared_gb``.

    >>> executors_that_fit(16.0, 4.9, 0.8)
    3
    """
    return max(0, floor((memory_gb - shared_gb) / executor_gb))


@dataclass(frozen=True, slots=True)
class PartPlan:
    """How the parts of a job run on devices of several types; one entry a type in each tuple.

    * ``devices``: those that run parts; ``executors``: on each of these; ``parts_each``: on each of these, on all
      executors together. There is room for all parts, and maybe for more;
    * ``step_s``: f; ``perf``: parts/s; ``waste``: parts/s that the devices could run and do not.
    """

    devices: tuple[int, ...]
    executors: tuple[int, ...]
    parts_each: tuple[int, ...]
    step_s: float
    perf: float
    waste: float

    @property
    def wasted_part(self) -> float:
        """The part of the devices' speed that is wasted."""
        return self.waste / (self.perf + self.waste)


def best_plan(types: Sequence[DeviceType], parts: int) -> PartPlan | None:
    """The plan on these devices with the shortest step; None where there are no devices.

    Types whose devices are too slow to run even one part within a step run none. Raises :class:`UserError` for a
    number of parts that no job has.
    """
    if not 1 <= parts <= PARTS_MOST:
        raise UserError(f"{parts} parts", where="best_plan(...)", expected=f"1 to {PARTS_MOST} parts")
    kept = [(each, each.executor_speeds) for each in types]
    candidates = sorted(
        {k / speed for each, speeds in kept if each.count for speed in speeds for k in _steps(each, parts)}
    )
    if not candidates:
        return None

    def fits(step_s: float) -> bool:
        return sum(each.count * _most(speeds, step_s)[1] for each, speeds in kept) >= parts

    step_s = candidates[bisect_left(candidates, True, key=fits)]
    per_device = [_most(speeds, step_s) for _, speeds in kept]
    return _plan(types, per_device, step_s, parts)


def _steps(each: DeviceType, parts: int) -> range:
    """How many parts an executor of the type may run in the shortest step: no more than if it had to run all."""
    return range(1, -(-parts // each.count) + 1)


def _most(speeds: Sequence[float], step_s: float) -> tuple[int, int]:
    """The executors with which a device runs most parts within a step, fewest first, and those parts."""
    room = [m * floor(step_s * speed * (1.0 + ROUNDING)) for m, speed in enumerate(speeds, 1)]
    most = max(room)
    return room.index(most) + 1, most


def _plan(
    types: Sequence[DeviceType], per_device: Sequence[tuple[int, int]], step_s: float, parts: int
) -> PartPlan:
    """The plan with so many executors and parts on each device."""
    used = [each.count if most else 0 for each, (_, most) in zip(types, per_device, strict=True)]
    able = [m * each.executor_speeds[m - 1] for each, (m, _) in zip(types, per_device, strict=True)]
    each_runs = [most for _, most in per_device]
    return PartPlan(
        devices=tuple(used),
        executors=tuple(m for m, _ in per_device),
        parts_each=tuple(each_runs),
        step_s=step_s,
        perf=parts / step_s,
        waste=waste(used, able, each_runs, parts),
    )


def waste(
    count_A: Sequence[int],
    speed_A: Sequence[float],
    parts_A: Sequence[int],
    parts: int,
    *,
    as_printed: bool = False,
) -> float:
    """Equation 1c, in parts/s: ``count_A`` devices of each type at ``speed_A`` parts/s run ``parts_A`` parts each.

    ``as_printed`` leaves the factor N_i out, as the paper does; it is there to show the difference.
    """
    step_s = max(a / c for n, c, a in zip(count_A, speed_A, parts_A, strict=True) if n)
    idle = sum(
        (1 if as_printed and n else n) * (c - a / step_s)
        for n, c, a in zip(count_A, speed_A, parts_A, strict=True)
    )
    room = sum(n * a for n, a in zip(count_A, parts_A, strict=True))
    return idle + (room - parts) / step_s
