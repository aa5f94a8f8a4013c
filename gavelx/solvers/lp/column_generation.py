"""A linear program with very many columns, of which the solver is given those that may help: sifting.

Where jobs share devices there is a column for every pair, and nearly all of them are 0 in the optimum. So the
solver begins with a few. Its multipliers y say what each of the others would gain, ``c - y A``; those that gain
most are added and it goes on, until none would gain anything: the optimum of all of them, with the same
multipliers. Where the few have no solution, the ray y that proves it says as well which others may help (Farkas).

Source: R. Bixby, J. Gregory, I. Lustig, R. Marsten and D. Shanno, "Very large-scale linear programming: a case
study in combining interior point and simplex methods" (Operations Research 40(5), 1992).

Legend: V variables, K constraints, v variables that the solver has.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import TOLERANCE, LinearProgram
from gavelx.solvers.program.errors import UnsolvedError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MANY, MANY_A_ROW = 2000, 5
"""A program with so many variables, and so many for each constraint, is sifted."""


def worth_it(matrix_KV: sparse.csr_array) -> bool:
    """Whether it is quicker to leave most columns out at first."""
    K, V = matrix_KV.shape
    return bool(V >= MANY and V >= MANY_A_ROW * K)


class ColumnGeneration(LinearProgram):
    """The same as :class:`LinearProgram`, for variables that are at least 0 unless they are among ``first_V``.

    ``first_V``: which variables to begin with, at least one. Coefficients can be changed of those alone.
    """

    def __init__(
        self,
        *,
        first_V: NDArray[np.bool_],
        objective_V: Floats,
        lower_V: Floats,
        upper_V: Floats,
        matrix_KV: sparse.csr_array,
        primal: bool = False,
        lower_K: Floats,
        upper_K: Floats,
    ) -> None:
        self._objective_V, self._upper_V, self._matrix_KV = objective_V, upper_V, sparse.csc_array(matrix_KV)
        self._here_v = np.flatnonzero(first_V)
        self._waits_V = ~first_V & (upper_V > 0.0)
        self._primal = primal
        super().__init__(
            objective_V=objective_V[self._here_v],
            lower_V=lower_V[self._here_v],
            upper_V=upper_V[self._here_v],
            matrix_KV=self._matrix_KV[:, self._here_v],
            primal=primal,
            lower_K=lower_K,
            upper_K=upper_K,
        )

    @property
    def columns(self) -> int:
        """How many of them the solver was given so far."""
        return len(self._here_v)

    def solve(self) -> tuple[Floats, Floats]:
        self.prefer(primal=self._primal)
        while True:
            try:
                value_v, multiplier_K = super().solve()
            except UnsolvedError as error:
                if not (error.status == "infeasible" and self._add(self._helpful())):
                    raise
            else:
                gain_V = self._objective_V - multiplier_K @ self._matrix_KV
                if not self._add(self._best(gain_V / self._unit)):
                    value_V = np.zeros(len(self._objective_V))
                    value_V[self._here_v] = value_v
                    return value_V, multiplier_K
            self.prefer(primal=True)  # what was found is a vertex to go on from

    def set_coefficient(self, row: int, column: int, value: float) -> None:
        super().set_coefficient(row, int(np.flatnonzero(self._here_v == column)[0]), value)

    def set_objective(self, objective_V: Floats) -> None:
        self._objective_V = objective_V
        super().set_objective(objective_V[self._here_v])

    def _best(self, gain_V: Floats) -> Ints:
        """The waiting variables that gain most, as many as there are constraints."""
        gaining, most = np.flatnonzero(self._waits_V & (gain_V > TOLERANCE)), self._matrix_KV.shape[0]
        if len(gaining) <= most:
            return gaining
        return gaining[np.argpartition(gain_V[gaining], -most)[-most:]]

    def _helpful(self) -> Ints:
        """Those that are most against the proof that the others have no solution; all, if there is no proof."""
        ray_K = self.infeasible_by()
        if ray_K is None:
            return np.flatnonzero(self._waits_V)
        return self._best(ray_K @ self._matrix_KV / np.abs(ray_K).max())

    def _add(self, new: Ints) -> bool:
        """Give these to the solver; False if there are none."""
        if len(new):
            self.add_columns(self._objective_V[new], self._upper_V[new], self._matrix_KV[:, new])
            self._waits_V[new] = False
            self._here_v = np.concatenate([self._here_v, new])
        return len(new) > 0
