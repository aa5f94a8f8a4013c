"""AlloX as it was published: a matching of jobs with every position of every device, solved by scipy.

Slow and simple, to compare the policy ``allox`` with. The matrix is J x (J N) for N devices: 138 MB for 400 jobs
on 108 devices. Source: the code published with Gavel (OSDI'20), with all jobs of the queue (alpha = 1).

Legend: J jobs, A accelerator types, N devices that are free.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from gavelx.allocation import Allocation
from gavelx.policies import Policy
from gavelx.policies.baselines.allox import the_queue
from gavelx.snapshot import WAITING, Snapshot
from gavelx.solvers import certified

REFERENCE_ORDER = ("k80", "p100", "v100")
SLOWEST = 1e-10
"""Steps/s of a job on a type where it cannot run."""


@dataclass(frozen=True)
class PublishedPlan:
    """Who starts where (``WAITING``: later), every job's type and position from the end, and the sum of both."""

    starts_J: np.ndarray
    type_J: np.ndarray
    position_J: np.ndarray
    cost: float


def grown_matrix(seconds_JN: np.ndarray, age_s_J: np.ndarray) -> np.ndarray:
    """Columns for positions 1 to J, appended one after the other, as the published code does: J copies, twice."""
    age_JN = np.repeat(age_s_J[:, None], seconds_JN.shape[1], axis=1)
    cost, age = seconds_JN.copy(), age_JN.copy()
    for position in range(2, len(seconds_JN) + 1):
        cost = np.concatenate((cost, position * seconds_JN), axis=1)
        age = np.concatenate((age, age_JN), axis=1)
    return cost + age


def matrix_at_once(seconds_JN: np.ndarray, age_s_J: np.ndarray) -> np.ndarray:
    """The same matrix without the copies: what a careful author would write."""
    positions = range(1, len(seconds_JN) + 1)
    return np.concatenate([position * seconds_JN for position in positions], axis=1) + age_s_J[:, None]


def published_allox(
    seconds_JA: np.ndarray,
    free_A: np.ndarray,
    age_s_J: np.ndarray | float = 0.0,
    build: Callable[[np.ndarray, np.ndarray], np.ndarray] = matrix_at_once,
) -> PublishedPlan:
    """The published plan for jobs of these lengths on so many free devices of each type.

    Among several best plans the result depends on the order of jobs (published: oldest first) and of types
    (published: k80, p100, v100). ``age_s_J`` is added to each job's row: without effect, but where rounding
    decides. ``build`` is one of the two functions above.
    """
    type_N = np.repeat(np.arange(len(free_A)), free_A)
    J, N = len(seconds_JA), len(type_N)
    starts_J = np.full(J, WAITING)
    if not J or not N:
        return PublishedPlan(starts_J, starts_J.copy(), starts_J.copy(), 0.0)
    seconds_JN = seconds_JA[:, type_N]
    job, column = linear_sum_assignment(build(seconds_JN, np.broadcast_to(age_s_J, J)))
    position_J, device_J = column // N + 1, column % N
    for device in range(N):
        in_line = np.flatnonzero(device_J == device)
        if len(in_line):
            starts_J[in_line[position_J[in_line].argmax()]] = type_N[device]
    return PublishedPlan(
        starts_J, type_N[device_J], position_J, float((position_J * seconds_JN[job, device_J]).sum())
    )


def assert_starts_of(
    type_J: np.ndarray, position_J: np.ndarray, share_JA: np.ndarray, devices_A: np.ndarray
) -> None:
    """The jobs with a share are the first on their devices under a plan of types and positions.

    On each type those at the highest position start, and on the devices that are left some of the position below.
    Which of these is open, as a plan does not say who shares a device with whom.
    """
    for a, devices in enumerate(devices_A):
        in_line, starts = type_J == a, share_JA[:, a] == 1.0
        top = position_J[in_line].max(initial=0)
        assert starts[in_line & (position_J == top)].all()
        assert (in_line & (position_J >= top - 1))[starts].all()
        assert starts.sum() == min(in_line.sum(), devices)


def keepers(snapshot: Snapshot, T_JA: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The type that each job holds and can go on with, else ``WAITING``; and the devices that nobody holds."""
    type_J, free_A = snapshot.running_J.copy(), snapshot.devices_A.copy()
    for j in np.flatnonzero(type_J != WAITING).tolist():
        if T_JA[j, type_J[j]] > 0 and free_A[type_J[j]] > 0:
            free_A[type_J[j]] -= 1
        else:
            type_J[j] = WAITING
    return type_J, free_A


class PublishedAllox(Policy):
    """The published policy, ties and slowest speed and all; its rules let other jobs fill idle devices."""

    name = "published_allox"

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.configurations
        T_JA = np.maximum(np.nan_to_num(table.throughput_JA), SLOWEST)
        type_J, free_A = keepers(snapshot, T_JA)
        queue = the_queue(snapshot, type_J == WAITING)
        order = np.array([snapshot.accelerators.index(name) for name in REFERENCE_ORDER])
        seconds_JA = snapshot.steps_left_J[queue, None] / T_JA[queue][:, order]
        plan = published_allox(seconds_JA, free_A[order], snapshot.elapsed_s_J[queue])
        type_J[queue] = np.where(plan.starts_J == WAITING, WAITING, order[plan.starts_J])
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = type_J[table.job_M] == table.accelerator_C[table.configuration_M]
        return certified(snapshot, share_C, path="matrix", seconds=0.0, objective=plan.cost)
