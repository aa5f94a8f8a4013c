"""The check that every answer passes before anyone uses it.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import FEASIBLE, Allocation, Certificate, check_form, check_limits
from gavelx.execution import DEFAULT, Execution
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.statement import Required

Floats = NDArray[np.float64]
BITS = 1e-12
"""What is less than this is rounding of sums and left alone."""
SUMS = 1.0 - BITS
"""A little less than all of a type, since sums over a million shares round."""


def certified(
    snapshot: Snapshot,
    share_C: Floats,
    *,
    path: str,
    seconds: float,
    objective: float | None = None,
    bound: float | None = None,
    classes: int | None = None,
    marginal_A: Floats | None = None,
    excess: float | None = None,
    log_weight: float | None = None,
    execution: Execution = DEFAULT,
) -> Allocation:
    """The allocation with these shares and a certificate recomputed from them.

    ``excess`` is the worst one over any constraint, where :func:`violation` and :func:`missing` were asked before.

    Raises :class:`SharesError`, an AssertionError, where the shares are not feasible, and says why: shares go
    through :func:`repaired` first if they come from arithmetic that rounds.
    """
    share_C = check_form(snapshot, share_C)
    excess = violation(snapshot, share_C) if excess is None else excess
    if not excess <= FEASIBLE:  # or NaN
        check_limits(snapshot, share_C)
    marginal = {} if marginal_A is None else dict(zip(snapshot.accelerators, marginal_A.tolist(), strict=True))
    certificate = Certificate(
        objective=objective,
        bound=bound,
        violation=excess,
        path=path,
        classes=len(snapshot.jobs) if classes is None else classes,
        seconds=seconds,
        log_weight=log_weight,
    )
    return Allocation(snapshot, share_C, certificate, marginal, execution)


def violation(snapshot: Snapshot, share_C: Floats) -> float:
    """The worst excess over any of the three constraints: time of a job, devices of a type, shares below 0.

    NaN where a share is.
    """
    table = snapshot.configurations
    time = (table.time_J(share_C) - 1.0).max(initial=0.0)
    devices = (table.devices_A(share_C) - snapshot.devices_A).max(initial=0.0)
    return float(np.max([time, devices, -share_C.min(initial=0.0)])) + 0.0  # -0 is 0


def missing(requirements: Sequence[Required], share_C: Floats) -> float:
    """How far the shares stay below a requirement, relative to the size of its numbers."""
    return max((requirement.missing(share_C) for requirement in requirements), default=0.0)


def repaired(snapshot: Snapshot, share_C: Floats) -> Floats:
    """The same shares with the solver's rounding taken out: clipped at 0, scaled down where a row is exceeded.

    Meant for excesses around 1e-10; what it costs is in the objective, which is computed afterwards. The last bits
    of sums are left as they are. Raises :class:`SharesError` where there is not one number for each configuration.
    """
    share_C, table = check_form(snapshot, share_C), snapshot.configurations
    if share_C.min(initial=0.0) < 0:
        share_C = np.maximum(0.0, share_C)
    time_J = np.maximum(1.0, table.time_J(share_C))
    if (time_J > 1.0 + BITS).any():
        slowest_C = np.ones(len(table))
        np.maximum.at(slowest_C, table.configuration_M, time_J[table.job_M])
        share_C = share_C / slowest_C
    in_use_A = table.devices_A(share_C)
    over_A = in_use_A > snapshot.devices_A + BITS
    scale_A = np.divide(snapshot.devices_A * SUMS, in_use_A, out=np.ones(len(in_use_A)), where=over_A)
    return np.asarray(share_C * table.least_C(scale_A)) if over_A.any() else share_C
