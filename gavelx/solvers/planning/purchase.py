"""The cheapest devices that do some work in time: how many instances of each kind to hold.

    minimise    sum_p usd_p n_p                           n_p whole
    subject to  the rows of `fluid`, with devices_p = size_p n_p
                sum_{p in group} size_p n_p <= limit      for each group of pools
                size_p n_p >= s_j where j runs in p       a gang needs all its devices at once
                n is not within a cluster that has failed

The bound leaves out the whole numbers, the gangs' own rows and the failed clusters. Its multipliers say what one
more device of each pool is worth, in each interval.

Legend: as in `fluid`; G groups of pools, W pairs of a width and a pool that has no instance as wide, F clusters
that failed, V variables (entries, then instances, then choices between yes and no).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.lp.integer import IntegerSolution, solve_integer
from gavelx.solvers.planning.fluid import Fluid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HAIR = 1e-9
"""Part of a job by which work may fall short: the rounding of sums."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The least dollars per hour of any cluster that does the work in time, and what devices are worth then.

    ``worth_PK`` is what one more device of each pool would save in each interval, in dollars per hour of it.
    """

    usd_per_hour: float
    instances_P: Floats
    worth_PK: Floats


@dataclass(frozen=True, eq=False)
class Purchase:
    """What can be bought: instances of ``size_P`` devices at ``usd_P`` per hour; at most ``limit_G`` devices."""

    fluid: Fluid
    size_P: Ints
    usd_P: Floats
    group_GP: NDArray[np.bool_]
    limit_G: Floats

    def bound(self) -> Bound:
        """The optimum without whole numbers. Raises :class:`UnsolvedError` where the limits are too tight."""
        matrix, lower, upper = self._rows(self._needed(0.0))
        program = LinearProgram(
            objective_V=-self._cost_V(0),
            lower_V=np.zeros(matrix.shape[1]),
            upper_V=self._upper_V(0),
            matrix_KV=matrix,
            lower_K=lower,
            upper_K=upper,
        )
        value_V, dual_K = program.solve()
        fluid = self.fluid
        instances_P = value_V[fluid.E :]
        first = len(fluid.window_R)
        rise_PK = np.abs(dual_K[first : first + fluid.P * fluid.K]).reshape(fluid.P, fluid.K)
        part_K = fluid.length_s_K / fluid.length_s_K.sum()
        return Bound(float((self.usd_P * instances_P).sum()), instances_P, rise_PK / part_K)

    def cheapest(self, margin: float, failed: Sequence[Ints] = ()) -> IntegerSolution:
        """Whole instances (``value_V``) for the work, and a part ``margin`` more of each job where that can be.

        None of the clusters that ``failed``, nor a smaller one, is given. Raises :class:`UnsolvedError`.
        """
        matrix, lower, upper = self._rows(self._needed(margin))
        blocks = [self._gang_rows(), *(self._not_within(n_P) for n_P in failed)]
        choices = sum(of_choices.shape[1] for _, of_choices, _ in blocks)
        rows, first = [sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], choices))])], 0
        for of_buying, of_choices, low in blocks:
            before, here = sparse.csr_array((len(low), first)), of_choices.shape[1]
            after = sparse.csr_array((len(low), choices - first - here))
            rows.append(sparse.hstack([of_buying, before, of_choices, after]))
            lower, upper = np.concatenate([lower, low]), np.concatenate([upper, np.full(len(low), np.inf)])
            first += here
        whole_V = np.arange(matrix.shape[1] + choices) >= self.fluid.E
        bounds_V = np.zeros(len(whole_V)), self._upper_V(choices)
        answer = solve_integer(
            self._cost_V(choices), bounds_V, sparse.csr_array(sparse.vstack(rows)), (lower, upper), whole_V
        )
        instances_P = np.rint(answer.value_V[self.fluid.E : matrix.shape[1]])
        return IntegerSolution(instances_P, float((self.usd_P * instances_P).sum()), answer.bound)

    def _needed(self, margin: float) -> Floats:
        """The part of each job that must be done; not more than can be."""
        return np.minimum(1.0 + margin, self.fluid.demand.most_done_J()) * (1.0 - HAIR)

    def _rows(self, needed_J: Floats) -> tuple[sparse.csr_array, Floats, Floats]:
        """Time, devices, work and limits over entries and instances."""
        fluid = self.fluid
        bought_QP = sparse.csr_array(np.repeat(np.diag(self.size_P.astype(float)), fluid.K, axis=0))
        matrix = sparse.block_array(
            [
                [fluid.time_RE, None],
                [fluid.devices_QE, -bought_QP],
                [fluid.done_JE, None],
                [None, sparse.csr_array(self.group_GP * self.size_P.astype(float))],
            ],
            format="csr",
        )
        upper = [fluid.window_R, np.zeros(fluid.P * fluid.K), np.full(fluid.J, np.inf), self.limit_G]
        lower = np.full(matrix.shape[0], -np.inf)
        work = len(fluid.window_R) + fluid.P * fluid.K
        lower[work : work + fluid.J] = needed_J
        return matrix, lower, np.concatenate(upper)

    def _cost_V(self, choices: int) -> Floats:
        return np.concatenate([np.zeros(self.fluid.E), self.usd_P, np.zeros(choices)])

    def _upper_V(self, choices: int) -> Floats:
        return np.concatenate([np.ones(self.fluid.E), self.most_P, np.ones(choices)])

    @cached_property
    def most_P(self) -> Floats:
        """Instances of each pool beyond which none is of use: enough for all jobs at once."""
        demand = self.fluid.demand
        at_once = max(
            float(demand.scale_J[(demand.release_s_J <= time_s) & (demand.due_s_J > time_s)].sum())
            for time_s in demand.release_s_J.tolist()
        )
        return np.ceil(at_once / self.size_P)

    def _gang_rows(self) -> tuple[sparse.csr_array, sparse.csr_array, Floats]:
        """Rows >= 0: where gangs of a width run, the pool has as many devices."""
        fluid, scale_J = self.fluid, self.fluid.demand.scale_J
        pairs = [(g, p) for g in np.unique(scale_J) for p in range(fluid.P) if g > self.size_P[p]]
        buying = np.zeros((len(pairs), fluid.P))
        runs = sparse.lil_array((len(pairs), fluid.E))
        most_W = np.zeros(len(pairs))
        for w, (g, p) in enumerate(pairs):
            buying[w, p] = self.size_P[p]
            entries = np.flatnonzero((fluid.pool_E == p) & (scale_J[fluid.job_E] == g))
            runs[w, entries] = -1.0
            most_W[w] = len(entries)
        width_W = np.array([g for g, _ in pairs])
        of_buying = sparse.vstack(
            [
                sparse.hstack([sparse.csr_array((len(pairs), fluid.E)), sparse.csr_array(buying)]),
                sparse.hstack([runs, sparse.csr_array((len(pairs), fluid.P))]),
            ]
        )
        of_choices = sparse.vstack([sparse.diags_array(-width_W), sparse.diags_array(most_W)])
        return sparse.csr_array(of_buying), sparse.csr_array(of_choices), np.zeros(2 * len(pairs))

    def _not_within(self, failed_P: Ints) -> tuple[sparse.csr_array, sparse.csr_array, Floats]:
        """Rows: of some pool there are more instances than in this cluster (choice p: of pool p)."""
        P, E = self.fluid.P, self.fluid.E
        at_least = sparse.csr_array((np.ones(P), (np.arange(P), E + np.arange(P))), shape=(P + 1, E + P))
        more = np.vstack([np.diag(-(failed_P + 1.0)), np.ones(P)])
        return at_least, sparse.csr_array(more), np.append(np.zeros(P), 1.0)
