"""Sia's program for jobs with widths and batches of their own, in the numbers and by the solver of its simulator.

Costs are rounded to 0.01 there, so many answers are equally good, and which of them a solver gives decides when
jobs end. The published choice can only be had from the published solver, CBC; the others tell the spread.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import cvxpy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.sia.placing import anew
from experiments.sia.rounds import Place, Running, Servers
from experiments.sia.schedulers import believed_speed, restart_factor
from gavelx.solvers.lp.integer import solve_integer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
POWER, IDLE, DECIMALS, COST_MOST = -0.5, 1.1, 2, 3000.0
GAP_PERCENT = 1e-2
TIE = 1e-4
"""What a preference among equally good answers is worth at most: less than 0.01 for a hundred jobs."""
HAS_CBC = find_spec("cylp") is not None


class Question(NamedTuple):
    """Costs of pairs of a job and a type, widths, devices of each type; pairs as they are, and which must stay."""

    cost_JA: Floats
    width_J: Ints
    devices_A: Ints
    present_JA: Bools
    fixed_J: Bools


Solver = Callable[[Question], Bools]
"""Which pairs are chosen."""


class RigidProgram:
    """``min sum x round((r g)^p, 2) + 1.1 for each job without devices``: g is width x speed / least speed.

    r holds for any type but the present one, and for none where a job has no devices.
    """

    def __init__(self, servers: Servers, solver: Solver) -> None:
        self.servers, self.solver = servers, solver
        self.now: dict[str, int] = {}
        """The type of each job that has devices."""

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]:
        names = list(self.servers.count)
        question = Question(
            np.array([self._costs(job, now_s - job.arrival_s) for job in jobs]),
            np.array([job.devices for job in jobs]),
            np.array([self.servers.total(name) for name in names]),
            np.array([[self.now.get(job.name) == a for a in range(len(names))] for job in jobs]),
            np.array([job.pause_s > 0 for job in jobs]),
        )
        self.now = {jobs[j].name: int(a) for j, a in np.argwhere(self.solver(question))}
        wanted = {job.name: (names[self.now[job.name]], job.devices) for job in jobs if job.name in self.now}
        return anew(wanted, self.servers)

    def _costs(self, job: Running, age_s: float) -> Floats:
        speed_A = np.array([believed_speed(job, name, job.devices, self.servers) for name in self.servers.count])
        worth_A = job.devices * speed_A / speed_A.min()
        if (now := self.now.get(job.name)) is not None:
            factor_A = np.full(len(worth_A), restart_factor(job, age_s) if job.pause_s <= 0 else 0.0)
            factor_A[now] = 1.0
            worth_A *= factor_A
        with np.errstate(divide="ignore"):
            return np.minimum(np.round(worth_A**POWER, DECIMALS), COST_MOST)


def by_cbc(asked: Question) -> Bools:
    """CBC on one thread, with the program written row by row as there: the very answer of that simulator."""
    J, A = asked.cost_JA.shape
    x_JA = cvxpy.Variable((J, A), integer=True)
    used_A = cvxpy.sum(cvxpy.multiply(x_JA, np.tile(asked.width_J[:, None], (1, A))), axis=0)
    once_J1 = x_JA @ np.ones((A, 1)) <= np.ones((J, 1))
    rows = [x_JA >= 0, x_JA <= 1, used_A <= asked.devices_A, used_A >= 0, once_J1]
    rows += [x_JA[j, a] == 1 for j, a in np.argwhere(asked.present_JA & asked.fixed_J[:, None]).tolist()]
    objective = cvxpy.sum(cvxpy.multiply(x_JA, asked.cost_JA)) + IDLE * (J - cvxpy.sum(x_JA))
    problem = cvxpy.Problem(cvxpy.Minimize(objective), rows)
    problem.solve(solver=cvxpy.CBC, numberThreads=1, allowablePercentageGap=GAP_PERCENT)
    return np.asarray(x_JA.value > 0.5)


def by_highs(asked: Question, tie_JA: Floats) -> Bools:
    """HiGHS. ``tie_JA``, from 0 to 1: of answers that are equally good, the one with the least sum of these."""
    (J, A), V = asked.cost_JA.shape, asked.cost_JA.size
    job_V, type_V = np.divmod(np.arange(V), A)
    once = sparse.csr_array((np.ones(V), (job_V, np.arange(V))), shape=(J, V))
    held = sparse.csr_array((asked.width_J[job_V].astype(float), (type_V, np.arange(V))), shape=(A, V))
    answer = solve_integer(
        (asked.cost_JA - IDLE + TIE * tie_JA).ravel(),
        ((asked.present_JA & asked.fixed_J[:, None]).ravel().astype(float), np.ones(V)),
        sparse.csr_array(sparse.vstack([once, held])),
        (np.full(J + A, -np.inf), np.concatenate([np.ones(J), asked.devices_A.astype(float)])),
        np.ones(V, dtype=bool),
    )
    return np.asarray(answer.value_V.reshape(J, A) > 0.5)


def any_optimum(asked: Question) -> Bools:
    """The one at which HiGHS ends."""
    return by_highs(asked, np.zeros(asked.cost_JA.shape))


def as_at_present(asked: Question) -> Bools:
    """The one that leaves most jobs where they are."""
    return by_highs(asked, 1.0 - asked.present_JA)


def at_random(seed: int) -> Solver:
    """One drawn anew in each round."""
    chance = np.random.default_rng(seed)
    return lambda asked: by_highs(asked, chance.random(asked.cost_JA.shape))


def objective(asked: Question, chosen_JA: Bools) -> float:
    """What the program minimises, of this answer."""
    return float(asked.cost_JA[chosen_JA].sum() + IDLE * (len(asked.cost_JA) - chosen_JA.sum()))
