"""Who runs where, and in what order, so that the sum of completion times is least.

On one device with jobs in line, the k-th from the last delays k jobs (itself and those behind), so it adds k times
its length to the sum. Devices of a type are interchangeable: what is to be found is for each job an accelerator
type and a position k, at a cost of k p_ja, with at most W_a jobs in the slot (a, k). Nothing grows with the number
of devices but the slots' lists of jobs.

Within a type the longest go last, so a plan is a type for each job. A *guess* of the types comes near the best in
a few rounds of prices: everyone goes where length and prices are least, and prices move towards those that the
lines of jobs so made ask for. Then *cycles* of jobs, each of which takes the slot of the next at less cost in sum,
are found by shortest paths over slots and carried out, until there is none: then the lengths of the paths are
prices at which every job is where it likes best, and they prove the plan. Source: cycle cancelling, with paths by
Bellman and Ford (R. Ahuja, T. Magnanti, J. Orlin, Network Flows, 1993, chapters 5 and 9); the problem is that of
AlloX (T. N. Le et al., EuroSys 2020), solved there as a matching of jobs with every position of every device.

Legend: J jobs, A accelerator types, S slots (a type and a position), P slots on cycles, F places in a slot,
K positions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDS = 16
"""How often prices are moved in the guess, where there are many jobs: as much time as the cycles left to find."""
FIRST_STEP, NEXT_STEP = 0.3, 0.9
"""The share by which prices move in the first round, and the ratio of one step to the one before."""


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
    seconds_JA, devices_A = seconds_JA[:, types], np.minimum(devices_A[types], J)
    slots = _Slots(seconds_JA, devices_A, _guess(seconds_JA, devices_A))
    slots.improve()
    while slots.is_a_type_full():
        slots = _Slots(seconds_JA, devices_A, slots.type_J)
        slots.improve()
    position_J = _positions(seconds_JA, devices_A, slots.type_J)
    cost = float((position_J * seconds_JA[np.arange(J), slots.type_J]).sum())
    return Plan(types[slots.type_J], position_J, cost, bound=min(slots.bound(), cost))


def starts_by_matrix(seconds_JA: Floats, devices_A: Ints, age_s_J: Floats) -> Ints:
    """The type on which each job starts, -1 if it waits, by matching jobs with every position of every device.

    The published way, J x (J N) numbers for N devices, for its choice where several plans are best: it depends on
    the order of jobs and of types, and on ages (added to the rows) where rounding decides. Jobs are placed one by
    one, a place that was ever taken stays so, and those of a device fill up from the first; so the solver does not
    see positions beyond the first that is empty, and they are left out.
    """
    type_N = np.arange(len(devices_A)).repeat(devices_A)
    starts_J = np.full(len(seconds_JA), -1)
    if not len(seconds_JA) or not len(type_N):
        return starts_J
    J, N, seconds_JN = len(seconds_JA), len(type_N), seconds_JA[:, type_N]
    positions = min(J, 2 * (J // N + 1))
    while (places := _places(seconds_JN, positions, age_s_J)) is None:
        positions = min(J, 2 * positions)
    job, position, device = places
    first = np.lexsort([-position, device])
    first = first[np.unique(device[first], return_index=True)[1]]
    starts_J[job[first]] = type_N[device[first]]
    return starts_J


def _places(seconds_JN: Floats, positions: int, age_s_J: Floats) -> tuple[Ints, Ints, Ints] | None:
    """The cheapest place of each job by the solver's matrix, a position (0 is the last in line) and a device.

    None if there are too few positions to tell: a job has the last one, or not all can be placed.
    """
    J, N = seconds_JN.shape
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # a third of the time of importing all policies

    matrix = (np.arange(1, positions + 1)[None, :, None] * seconds_JN[:, None, :]).reshape(J, positions * N)
    try:
        job, column = linear_sum_assignment(matrix + age_s_J[:, None])
    except ValueError:  # "cost matrix is infeasible"
        if positions == J:
            raise
        return None
    if column.max() // N == positions - 1 < J - 1:
        return None
    return job, column // N, column % N


def _positions(seconds_JA: Floats, devices_A: Ints, type_J: Ints) -> Ints:
    """From the end, the longest at 1: the best places in the lines of these types."""
    position_J = np.empty(len(type_J), dtype=np.int64)
    for a, devices in enumerate(devices_A.tolist()):
        (jobs,) = (type_J == a).nonzero()
        longest_first = jobs[(-seconds_JA[jobs, a]).argsort(kind="stable")]
        position_J[longest_first] = np.arange(len(jobs)) // devices + 1
    return position_J


def _guess(seconds_JA: Floats, devices_A: Ints) -> Ints:
    """A type for each job, near the best.

    The *edge* k of a type is a length between those of the jobs at positions k and k + 1, and the difference of
    the two prices. Edges move towards the lengths of the longest at k + 1 in the lines that come of them, in ever
    smaller steps, as all jobs answer at once. At first all types have like jobs, as many per device.
    """
    J, A = seconds_JA.shape
    seconds_AJ = np.ascontiguousarray(seconds_JA.T)
    order_AJ = (-seconds_AJ).argsort(axis=1, kind="stable")
    sorted_AJ = np.take_along_axis(seconds_AJ, order_AJ, axis=1)
    edge_AK = np.zeros((A, J // int(devices_A.min()) + 1))
    for a, N in enumerate([int(devices_A.sum())] * A):
        edges = sorted_AJ[a][sorted_AJ[a] < np.inf][N::N]
        edge_AK[a, : len(edges)] = edges
    type_J = _answer(seconds_AJ, edge_AK)
    for n in range(min(ROUNDS, J // 4)):  # in a short queue few cycles are left anyway
        step = FIRST_STEP * NEXT_STEP**n
        edge_AK *= 1.0 - step
        for a, N in enumerate(devices_A.tolist()):
            edges = sorted_AJ[a][type_J[order_AJ[a]] == a][N::N]
            edge_AK[a, : len(edges)] += step * edges
        type_J = _answer(seconds_AJ, edge_AK)
    return type_J


def _answer(seconds_AJ: Floats, edge_AK: Floats) -> Ints:
    """The type that each job likes best: it goes behind all edges above its length, and pays the others."""
    cost_AJ = np.empty_like(seconds_AJ)
    for a, rising_K in enumerate(edge_AK[:, ::-1]):
        paid_J = rising_K.searchsorted(seconds_AJ[a])
        price_K = np.concatenate([[0.0], rising_K.cumsum()])
        cost_AJ[a] = seconds_AJ[a] * (len(rising_K) + 1 - paid_J) + price_K[paid_J]
    return np.asarray(cost_AJ.argmin(axis=0))


class _Slots:
    """The slots in use, the jobs in them, and what it costs to move a job from one to another.

    ``move_SS[s, t]`` is the least rise of cost by which one of the jobs in s can go to t. ``job_SF`` lists the
    jobs in a slot. An empty place holds J, a job of no length; what is no place, because other types have more
    devices, holds J + 1, a job that cannot go anywhere. Every type has empty slots at first, to take more.
    """

    def __init__(self, seconds_JA: Floats, devices_A: Ints, type_J: Ints) -> None:
        J, A = seconds_JA.shape
        # so many that a type is rarely full at the end, also where a slot is one or two devices
        levels_A = np.bincount(type_J, minlength=A) // devices_A + 2 + 4 // devices_A
        self.last_A = levels_A.cumsum() - 1
        first_A = self.last_A - levels_A + 1
        self.type_S = np.arange(A).repeat(levels_A)
        self.devices_S = devices_A[self.type_S]
        S = len(self.type_S)
        position_S = np.arange(1, S + 1) - first_A[self.type_S]
        self.all_cost_JS = np.zeros((J + 2, S))
        np.multiply(seconds_JA[:, self.type_S], position_S, out=self.all_cost_JS[:J])
        self.all_cost_JS[J + 1] = np.inf
        slot_J = first_A[type_J] + _positions(seconds_JA, devices_A, type_J) - 1
        self.job_SF = _listed(slot_J, self.devices_S)
        self.cost_J1 = np.append(self.all_cost_JS[np.arange(J), slot_J], [0.0, 0.0])  # where the job is
        self.move_SS = self._moves(np.arange(S))
        longest = seconds_JA.min(axis=1).max()  # where they are quick: a place that takes ages has no say
        self.epsilon = 1e-14 * longest * max(1.0, J / devices_A.sum())
        self.price_S = self._prices_of_lines()

    @property
    def type_J(self) -> Ints:
        """The type on which each job is."""
        type_J = np.empty(len(self.cost_J1), dtype=np.int64)
        type_J[self.job_SF] = self.type_S[:, None]
        return type_J[:-2]

    def is_a_type_full(self) -> bool:
        """Whether a type has no empty place left, so that it might take more if it had."""
        return bool((self.job_SF[self.last_A] != len(self.cost_J1) - 2).all(axis=1).any())

    def bound(self) -> float:
        """The dual value: every job pays for the place it likes best, and gets its share of what places earn."""
        price_S = np.maximum(self.price_S - self.price_S[self.last_A].min(), 0.0)
        paid_J = (self.all_cost_JS[:-2] + price_S).min(axis=1)
        return float(paid_J.sum() - (price_S * self.devices_S).sum())

    def improve(self) -> None:
        """Carry out cycles while there are any, and find the prices that prove that there is none."""
        S = np.arange(len(self.type_S))
        next_S = S.copy()
        while True:
            through_SS = self.move_SS + self.price_S
            best_S = through_SS.argmin(axis=1)
            least_S = through_SS[S, best_S]
            (better,) = (least_S < self.price_S - self.epsilon).nonzero()
            if not len(better):
                return
            next_S[better], self.price_S[better] = best_S[better], least_S[better]
            on_P = _on_cycles(next_S)
            if len(on_P):
                if self.move_SS[on_P, next_S[on_P]].sum() >= 0.0:  # by rounding alone
                    return
                self._carry_out(on_P, next_S[on_P])
                next_S = S.copy()

    def _carry_out(self, from_P: Ints, to_P: Ints) -> None:
        """Of each of these slots the job for which it costs least goes to the next on its cycle."""
        job_PF = self.job_SF[from_P]
        rise_PF = self.all_cost_JS[job_PF, to_P[:, None]] - self.cost_J1[job_PF]
        place_P = rise_PF.argmin(axis=1)
        leaving_P = self.job_SF[from_P, place_P]
        free_S = np.zeros(len(self.job_SF), dtype=np.int64)
        free_S[from_P] = place_P
        self.job_SF[to_P, free_S[to_P]] = leaving_P
        self.cost_J1[leaving_P] = self.all_cost_JS[leaving_P, to_P]
        self.move_SS[from_P] = self._moves(from_P)

    def _moves(self, from_S: Ints) -> Floats:
        """The least rise of cost by which a job in each of these slots goes to each other."""
        job_SF = self.job_SF[from_S]
        rise_SFS = self.all_cost_JS[job_SF] - self.cost_J1[job_SF][:, :, None]
        return np.asarray(rise_SFS.min(axis=1))

    def _prices_of_lines(self) -> Floats:
        """What it costs that a job of each slot goes to the next of its type, up to the last: near the prices."""
        step_S = np.append(self.move_SS.diagonal(1), 0.0)
        step_S[self.last_A] = 0.0
        sum_S = step_S[::-1].cumsum()[::-1]
        return np.asarray(sum_S - sum_S[self.last_A][self.type_S])


def _listed(slot_J: Ints, devices_S: Ints) -> Ints:
    """The jobs in each slot, J in empty places, J + 1 where there is no place."""
    J = len(slot_J)
    job_SF = np.where(np.arange(devices_S.max()) < devices_S[:, None], J, J + 1)
    order = slot_J.argsort(kind="stable")
    count_S = np.bincount(slot_J, minlength=len(devices_S))
    before_S = count_S.cumsum() - count_S
    job_SF[slot_J[order], np.arange(J) - before_S[slot_J[order]]] = order
    return job_SF


def _on_cycles(next_S: Ints) -> Ints:
    """The slots from which these steps lead back; a slot that is its own next is none. In doubling strides."""
    ahead_S = next_S
    for _ in range(len(next_S).bit_length()):
        ahead_S = ahead_S[ahead_S]
    on_S = np.zeros(len(next_S), dtype=np.bool_)
    on_S[ahead_S] = True
    return np.flatnonzero(on_S & (next_S != np.arange(len(next_S))))
