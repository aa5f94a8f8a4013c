"""The features of a move one by one, as their definitions say them: the reference for the arrays."""

import math

import numpy as np

from gavelx.slots.model import NONE, Slots
from gavelx.slots.moves import LEAST, OFF, Moves


class Plain:
    """One cluster: ``size_J`` is the size of each job, ``NONE`` for those that wait."""

    def __init__(self, slots: Slots, moves: Moves, k: int, size_J: np.ndarray, slot_s: float) -> None:
        self.sizes, self.moves, self.slot_s = slots.sizes, moves, slot_s
        self.kind, self.left = slots.kind_KJ[k].tolist(), slots.left_KJ[k].tolist()
        self.live, self.size = slots.live_KJ[k].tolist(), size_J.tolist()
        self.age_s = [slots.time_s - (a if math.isfinite(a) else 0.0) for a in slots.arrival_s_KJ[k].tolist()]
        held = sum((self.use(j, v) for j, v in enumerate(self.size)), np.zeros(len(slots.room_KR[k])))
        self.free = slots.room_KR[k] - held
        self.free_part = 1.0 - held / slots.room_KR[k]

    def use(self, j: int, v: int) -> np.ndarray:
        return self.sizes.use_NVR[self.kind[j], v] if v != NONE else 0.0 * self.sizes.use_NVR[0, 0]

    def part(self, j: int, v: int) -> float:
        return float((self.use(j, v) / self.moves.room_R).max())

    def time(self, j: int, v: int) -> float:
        speed_V, first_M = self.sizes.speed_NV[self.kind[j]], self.moves.next_NWM[self.kind[j], -1]
        if v == NONE:
            return 2.0 * max((self.time(j, first) for first in first_M.tolist() if first != NONE), default=0.0)
        return float(speed_V.max() / speed_V[v]) if speed_V[v] > 0.0 else 1e6

    def passes(self, j: int, v: int, w: int) -> bool:
        """Whether size v is not on the way to w."""
        grade_VD = self.moves.grade_NVD[self.kind[j]]
        return bool((grade_VD[v] > grade_VD[w]).any())

    def rate(self, j: int, v: int, w: int) -> float:
        """The time that size w saves over size v, for what it takes more; 0 for one that a job cannot have."""
        kind = self.kind[j]
        can = self.sizes.speed_NV[kind, w] > 0.0 and (self.moves.grade_NVD[kind, w] < OFF).all()
        if not can or self.part(j, w) > 1.0 + LEAST:
            return 0.0
        return max(0.0, (self.time(j, v) - self.time(j, w)) / max(self.part(j, w) - self.part(j, v), LEAST))

    def next(self, j: int, m: int) -> int:
        return int(self.moves.next_NWM[self.kind[j], self.size[j], m])

    def reach(self, j: int, m: int) -> float:
        v, first = self.size[j], self.next(j, m)
        beyond = [w for w in self.all_sizes if first != NONE and not self.passes(j, first, w)]
        return math.log(max(1e-3, max((self.rate(j, v, w) for w in beyond), default=0.0)))

    @property
    def all_sizes(self) -> range:
        return range(self.sizes.speed_NV.shape[1])

    def goal(self, j: int) -> int:
        v = self.size[j]
        rates = [0.0 if v != NONE and self.passes(j, v, w) else self.rate(j, v, w) for w in self.all_sizes]
        return int(np.argmax(rates)) if max(rates) > 0.0 else NONE

    def slots_left(self, j: int) -> float:
        return math.log(max(1e-3, self.left[j] / self.sizes.speed_NV[self.kind[j]].max() / self.slot_s))

    def most(self, j: int) -> float:
        return max(self.reach(j, m) for m in range(self.moves.next_NWM.shape[2]))

    def wants(self, j: int) -> float:
        best = int(self.sizes.speed_NV[self.kind[j]].argmax())
        return self.part(j, best) - self.part(j, self.size[j]) if self.live[j] else 0.0

    def wanted(self, jobs: list[int]) -> float:
        return math.log1p(max(0.0, sum(map(self.wants, jobs))))

    def allowed(self, j: int, m: int) -> bool:
        first = self.next(j, m)
        more = self.use(j, first) - self.use(j, self.size[j])
        return self.live[j] and first != NONE and bool((more <= self.free + LEAST).all())

    def features(self, j: int, m: int) -> list[float]:
        v, first, goal = self.size[j], self.next(j, m), self.goal(j)
        part, time, left = self.part(j, v), self.time(j, v), self.slots_left(j)
        alive = [i for i in range(len(self.kind)) if self.live[i]]
        n = len(alive)
        own = left + self.most(j) if self.live[j] else -math.inf
        ahead = [i for i in alive if self.slots_left(i) + self.most(i) > own]
        need = self.part(j, goal) - part if goal != NONE else 0.0
        gain = time - self.time(j, first) if first != NONE else 0.0
        takes = self.part(j, first) - part if first != NONE else 0.0
        least, largest = float(self.free_part.min()), float(self.free_part.max())
        found = [
            left, math.exp(min(left, 1.0)), 1.0 / time, float(v == NONE), part, self.most(j),
            len(ahead) / max(n, 1), self.wanted(ahead),
            left - sum(map(self.slots_left, alive)) / max(n, 1), least, largest, n / 10.0,
            sum(self.size[i] == NONE for i in alive) / max(n, 1), self.wanted(alive),
            self.age_s[j] / self.slot_s / 10.0, need * 10.0,
            time - self.time(j, goal) if goal != NONE else 0.0, math.log(max(1e-3, least / max(need, 1e-3))),
            gain, takes * 10.0, self.reach(j, m), self.reach(j, m) - self.most(j),
            math.log(max(gain, 1e-4) / max(takes, 1e-3)), float(m == 0),
            float(goal != NONE and not self.passes(j, first, goal)),
        ]  # fmt: skip
        return [min(20.0, max(-20.0, one)) for one in found]
