"""Who runs where, and in what order, so that the sum of completion times is least.

On one device with jobs in line, the k-th from the last delays k jobs (itself and those behind), so it adds k times
its length to the sum. Devices of a type are interchangeable: what is to be found is for each job an accelerator
type and a position k, at a cost of k p_ja, with at most W_a jobs in the slot (a, k). Positions are used without
holes, so of each type only the slots up to the first with room are looked at, and there are few of them.

Jobs are placed one after another, the longest first, each by a shortest path over *slots*: it takes a place, the
job that it displaces takes one elsewhere, and so on to a slot with room. Nothing grows with the number of devices
but the slots' lists of jobs. The price of a slot is the length of the shortest path from it to room. Prices are a
dual solution: as long as a job likes best (cost + price) a slot with room, it is placed at once and the prices
stay right. Source: successive shortest paths (R. Ahuja, T. Magnanti, J. Orlin, Network Flows, 1993, chapter 9);
the problem is that of AlloX (T. N. Le et al., EuroSys 2020), solved there as a matching of jobs with every
position of every device.

Legend: J jobs, A accelerator types, S slots (a type and a position), P the slots along a path, F places in a slot.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AT_ONCE = 24
"""Jobs of which the favourite slots are found in one go."""


@dataclass(frozen=True)
class Plan:
    """A type and a position for each job, counted from the end: the job at 1 is the last on its device.

    ``cost`` is the sum of position times length; ``bound`` a proven limit that no plan is below.
    """

    type_J: Ints
    position_J: Ints
    cost: float
    bound: float


def match(seconds_JA: Floats, devices_A: Ints) -> Plan:
    """The plan with the least sum of completion times, exact but for rounding.

    ``seconds_JA`` is the length of each job on each type, infinite where it cannot run; every job must be able to
    run on some type with devices. Among several best plans the same input gets the same one.
    """
    assert (seconds_JA[:, devices_A > 0].min(axis=1, initial=np.inf) < np.inf).all()
    J = len(seconds_JA)
    if not J:
        return Plan(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), 0.0, 0.0)
    types = np.flatnonzero(devices_A)
    order_J = np.argsort(-seconds_JA[:, types].min(axis=1), kind="stable")
    slots = _Slots(seconds_JA[np.ix_(order_J, types)], np.minimum(devices_A[types], J))
    slots.place_all()
    type_J, position_J = np.empty(J, dtype=np.int64), np.empty(J, dtype=np.int64)
    type_J[order_J], position_J[order_J] = types[slots.type_S[slots.slot_J]], slots.position_S[slots.slot_J]
    cost = float(slots.cost_J.sum())
    return Plan(type_J, position_J, cost, bound=min(slots.bound(), cost))


def starts_by_matrix(seconds_JA: Floats, devices_A: Ints, age_s_J: Floats) -> Ints:
    """The type on which each job starts, -1 if it waits, by matching jobs with every position of every device.

    The published way, J x (J N) numbers for N devices, for its choice where several plans are best: it depends on
    the order of jobs and of types, and on ages (added to the rows) where rounding decides.
    """
    type_N = np.arange(len(devices_A)).repeat(devices_A)
    starts_J = np.full(len(seconds_JA), -1)
    if not len(seconds_JA) or not len(type_N):
        return starts_J
    positions = np.arange(1, len(seconds_JA) + 1)
    seconds_JN = seconds_JA[:, type_N]
    matrix = (positions[None, :, None] * seconds_JN[:, None, :]).reshape(len(seconds_JA), -1)
    job, column = linear_sum_assignment(matrix + age_s_J[:, None])
    position, device = column // len(type_N), column % len(type_N)
    first = np.lexsort([-position, device])
    first = first[np.unique(device[first], return_index=True)[1]]
    starts_J[job[first]] = type_N[device[first]]
    return starts_J


class _Slots:
    """The slots in use, the jobs in them, and what it costs to move a job from one to another.

    ``move_SS[s, t]`` is the least rise of cost by which one of the jobs in s can go to t; ``job_SF`` lists the
    jobs in a slot, filled up with J, the number of a job that costs nothing where it is and cannot go anywhere.
    """

    def __init__(self, seconds_JA: Floats, devices_A: Ints) -> None:
        J, A = seconds_JA.shape
        self.seconds_JA, self.devices_A = seconds_JA, devices_A
        self.last_A = np.arange(A)  # of each type the only slot with room, if it has any
        self.type_S, self.position_S = np.arange(A), np.ones(A, dtype=np.int64)
        self.used_S, self.room_S = np.zeros(A, dtype=np.int64), devices_A.copy()
        self.price_S = np.zeros(A)
        self.next_S = np.zeros(A, dtype=np.int64)  # on the shortest path to room
        self.all_cost_JS = np.vstack([seconds_JA, np.full(A, np.inf)])  # of the slots that exist, and J's row
        self.move_SS = np.full((A, A), np.inf)
        self.job_SF = np.full((A, int(devices_A.max())), J)
        self.cost_J1 = np.zeros(J + 1)  # where the job is
        self.changed: set[int] = set()  # slots whose row of move_SS is out of date
        longest = seconds_JA.min(axis=1).max()  # where they are quick: a place that takes ages has no say
        self.epsilon = 1e-14 * longest * max(1.0, J / devices_A.sum())

    @property
    def cost_J(self) -> Floats:
        """What each job adds to the sum of completion times."""
        return self.cost_J1[:-1]

    @property
    def slot_J(self) -> Ints:
        """Where each job is."""
        slot_J = np.empty(len(self.cost_J1), dtype=np.int64)
        slot_J[self.job_SF] = np.arange(len(self.job_SF))[:, None]
        return slot_J[:-1]

    def place_all(self) -> None:
        """Place the jobs in their order: many at once while they like slots with room, else one along a path."""
        J, placed = len(self.seconds_JA), 0
        while placed < J:
            placed += self._place_directly(placed)
            if placed < J and not self._has_room(placed):
                self._find_prices()
                self._place_by_path(placed)
                placed += 1

    def bound(self) -> float:
        """The dual value: every job pays for the place it likes best, and gets its share of what places earn."""
        self._find_prices()
        paid_J = (self.all_cost_JS[:-1] + self.price_S).min(axis=1)
        return float(paid_J.sum() - self.price_S @ self.devices_A[self.type_S])

    def _has_room(self, j: int) -> bool:
        return bool(self.room_S[(self.all_cost_JS[j] + self.price_S).argmin()])

    def _place_directly(self, first: int) -> int:
        """Place the next jobs where they like it best, up to the first that finds no room; return how many."""
        jobs = self.all_cost_JS[first : min(first + AT_ONCE, len(self.seconds_JA))]
        for n, s in enumerate((jobs + self.price_S).argmin(axis=1).tolist()):
            if not self.room_S[s]:
                return n
            self._enter(first + n, s)
        return len(jobs)

    def _enter(self, j: int, s: int) -> None:
        """The job takes a free place."""
        self.job_SF[s, self.used_S[s]] = j
        self.cost_J1[j] = self.all_cost_JS[j, s]
        self.used_S[s] += 1
        self.room_S[s] -= 1
        self.changed.add(s)

    def _place_by_path(self, j: int) -> None:
        """The job takes a place, and everyone displaced on the way to room the next one."""
        s = int((self.all_cost_JS[j] + self.price_S).argmin())
        path = [s]
        while not self.room_S[s]:
            s = int(self.next_S[s])
            path.append(s)
        assert len(set(path)) == len(path), path
        if len(path) > 1:
            from_P, to_P = np.array(path[:-1]), np.array(path[1:])
            job_PF = self.job_SF[from_P]
            rise_PF = self.all_cost_JS[job_PF, to_P[:, None]] - self.cost_J1[job_PF]
            place_P = rise_PF.argmin(axis=1)
            leaving_P = self.job_SF[from_P, place_P]
            entering_P = np.concatenate([[j], leaving_P[:-1]])
            self.job_SF[from_P, place_P] = entering_P
            self.cost_J1[entering_P] = self.all_cost_JS[entering_P, from_P]
            self.changed.update(path)
            j = int(leaving_P[-1])
        self._enter(j, s)

    def _find_prices(self) -> None:
        """Shortest paths to room, by Bellman and Ford, from the paths that were shortest before."""
        self._open()
        self._update_moves()
        S = np.arange(len(self.type_S))
        next_S, move_SS, epsilon = self.next_S, self.move_SS, self.epsilon
        price_S = self._along(next_S)
        while True:
            through_SS = move_SS + price_S
            best_S = through_SS.argmin(axis=1)
            least_S = through_SS[S, best_S]
            (better,) = (least_S < price_S - epsilon).nonzero()
            if not len(better):
                break
            next_S[better], price_S[better] = best_S[better], least_S[better]
        self.price_S = price_S

    def _along(self, next_S: Ints) -> Floats:
        """Lengths of the paths that these steps make, in doubling strides."""
        S = np.arange(len(next_S))
        ahead_S = np.where(self.room_S, S, next_S)
        length_S = np.where(self.room_S, 0.0, self.move_SS[S, next_S])
        for _ in range(len(S).bit_length()):
            length_S += length_S[ahead_S]
            ahead_S = ahead_S[ahead_S]
        return length_S

    def _update_moves(self) -> None:
        """Find again the cheapest moves out of the slots whose jobs changed."""
        if self.changed:
            changed = np.array(list(self.changed))
            self.move_SS[changed] = self._moves(changed, slice(None))
            self.changed.clear()

    def _moves(self, from_S: Ints, to_S: slice) -> Floats:
        """The least rise of cost by which a job in each of these slots goes to each of those."""
        job_SF = self.job_SF[from_S]
        rise_SFS = self.all_cost_JS[:, to_S][job_SF] - self.cost_J1[job_SF][:, :, None]
        return np.asarray(rise_SFS.min(axis=1))

    def _open(self) -> None:
        """Behind every last slot of a type that is full, the next one."""
        (full_A,) = (self.room_S[self.last_A] == 0).nonzero()
        if not len(full_A):
            return
        S, new = len(self.type_S), len(full_A)
        position_S = self.position_S[self.last_A[full_A]] + 1
        new_S = np.arange(S, S + new)
        self.next_S[self.last_A[full_A]] = new_S
        self.last_A[full_A] = new_S
        self.next_S = np.append(self.next_S, new_S)
        self.type_S = np.append(self.type_S, full_A)
        self.position_S = np.append(self.position_S, position_S)
        self.used_S = np.append(self.used_S, np.zeros_like(full_A))
        self.room_S = np.append(self.room_S, self.devices_A[full_A])
        new_JS = np.vstack([self.seconds_JA[:, full_A] * position_S, np.full(new, np.inf)])
        self.all_cost_JS = np.hstack([self.all_cost_JS, new_JS])
        empty_SF = np.full((new, self.job_SF.shape[1]), len(self.seconds_JA))
        self.job_SF = np.vstack([self.job_SF, empty_SF])
        move_SS = np.full((S + new, S + new), np.inf)
        move_SS[:S, :S] = self.move_SS
        move_SS[:, S:] = self._moves(np.arange(S + new), slice(S, S + new))
        self.move_SS = move_SS
