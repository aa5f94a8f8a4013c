"""An explanation: reasons, prices and properties of one allocation, as plain data.

Legend: J jobs, A accelerator types.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.explain.properties import NO_JOB, equal_share_gain_J, pareto_slack, utility_J, worst_envy_J
from gavelx.explain.reasons import NEAR, Reasons, one_more_device
from gavelx.metrics import known
from gavelx.solvers.program.errors import UnsolvedError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUND = 9
"""Jobs whose gains agree to this many digits keep their order."""
EFFICIENT = 1e-7
"""Gains up to this, in top speeds per job, are rounding."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Reasons, prices and properties of an allocation. Each is computed at its first use.

    * ``one_more_device``: relative change of the objective by accelerator type; see :func:`one_more_device`;
    * ``usd_per_percent``: dollars an hour for each per cent of that, at the price of a device; only for types with
      a known price, of which one more device changes the objective;
    * ``gain_J``: against an equal share; ``envy_J``, ``envied_J``: the worst envy of each job, and the job that it
      envies (an index);
    * ``pareto_slack``: the gains, in top speeds of a job, that slow no other job down.
    """

    allocation: Allocation

    @cached_property
    def reasons(self) -> Reasons:
        return Reasons(self.allocation)

    @cached_property
    def limited_by_J(self) -> list[str]:
        """What limits each job's speed, in words."""
        return [self.reasons.limited_by(j) for j in range(len(self.allocation.snapshot.jobs))]

    @cached_property
    def one_more_device(self) -> dict[str, float]:
        return one_more_device(self.allocation)

    @cached_property
    def usd_per_percent(self) -> dict[str, float]:
        snapshot = self.allocation.snapshot
        usd = dict(zip(snapshot.accelerators, snapshot.usd_per_hour_A.tolist(), strict=True))
        return {
            name: usd[name] / abs(100.0 * change)
            for name, change in self.one_more_device.items()
            if abs(change) > EFFICIENT and not math.isnan(usd[name])
        }

    @cached_property
    def throughput_J(self) -> Floats:
        """Steps/s of each job in configurations that can run."""
        return utility_J(self.allocation)

    @cached_property
    def gain_J(self) -> Floats:
        return equal_share_gain_J(self.allocation)

    @cached_property
    def envy_J(self) -> Floats:
        return self._envy[0]

    @cached_property
    def envied_J(self) -> Ints:
        return self._envy[1]

    @cached_property
    def pareto_slack(self) -> float | None:
        """See :func:`pareto_slack`; None if the solver fails, which does not affect the rest."""
        try:
            return pareto_slack(self.allocation)
        except UnsolvedError:
            return None

    @property
    def worse_off_J(self) -> Ints:
        """The jobs (indices) that run slower than with an equal share, worst first."""
        order_J = self.worst_first_J
        return order_J[self.gain_J[order_J] < -NEAR]

    @cached_property
    def worst_first_J(self) -> Ints:
        """All jobs (indices), by their gain over an equal share; jobs that can run nowhere come last."""
        return np.argsort(self.gain_J.round(ROUND), kind="stable")

    @property
    def envious_J(self) -> Ints:
        """The jobs (indices) that envy another, worst first."""
        order_J = np.argsort(-self.envy_J.round(ROUND), kind="stable")
        return np.asarray(order_J[self.envied_J[order_J] != NO_JOB])

    @property
    def is_efficient(self) -> bool | None:
        """Whether no job can run faster without another running slower; None: unknown."""
        return None if self.pareto_slack is None else self.pareto_slack <= EFFICIENT * max(1, len(self.gain_J))

    @cached_property
    def _envy(self) -> tuple[Floats, Ints]:
        return worst_envy_J(self.allocation)

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain numbers and None (see the help of ``gavelx allocate``)."""
        snapshot, reasons = self.allocation.snapshot, self.reasons
        ids = [job.id for job in snapshot.jobs]
        return {
            "accelerators": {
                name: {
                    "devices": int(snapshot.devices_A[a]),
                    "in_use": float(reasons.in_use_A[a]),
                    "one_more_device": self.one_more_device.get(name),
                    "usd_per_hour_per_percent": self.usd_per_percent.get(name),
                }
                for a, name in enumerate(snapshot.accelerators)
            },
            "jobs": [
                {
                    "job_id": job_id,
                    "time_share": float(reasons.time_J[j]),
                    "steps_per_s": float(self.throughput_J[j]),
                    "equal_share_gain": known(float(self.gain_J[j])),
                    "envy": known(float(self.envy_J[j])),
                    "envies": None if self.envied_J[j] == NO_JOB else ids[self.envied_J[j]],
                    "limited_by": self.limited_by_J[j],
                }
                for j, job_id in enumerate(ids)
            ],
            "sharing_incentive": {"holds": not len(self.worse_off_J), "jobs_worse_off": len(self.worse_off_J)},
            "envy_freeness": {"holds": not len(self.envious_J), "jobs_envious": len(self.envious_J)},
            "pareto_efficiency": {"holds": self.is_efficient, "slack": self.pareto_slack},
        }
