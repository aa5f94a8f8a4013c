"""What the present allocation promises: every configuration that a job may claim, and what each is owed.

Legend: V configurations, J live jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE, ConfigurationSet, PromisedSet, widened
from gavelx.mechanism.live import LiveJobs
from gavelx.promises import Promises

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def _floats() -> Floats:
    return np.zeros(0)


@dataclass(eq=False)
class Entitlements(PromisedSet):
    """Configurations that were promised; members are rows of the live jobs, types those of the mechanism.

    Where a gang goes is up to the placement, so none of them is spread. ``share`` is the promised share of time,
    ``credit_s`` the time promised and not received.
    """

    credit_s: Floats = field(default_factory=_floats)

    @staticmethod
    def of_shares(configurations: ConfigurationSet, share: Floats) -> "Entitlements":
        """Configurations that are owed nothing."""
        return Entitlements.to(configurations, share=share, credit_s=np.zeros(len(share)))

    @property
    def configurations(self) -> ConfigurationSet:
        """What they are entitled to, without the time."""
        return ConfigurationSet(*self.columns())

    def renumber(self, row_J: Ints) -> None:
        """Rows were renumbered; none of its jobs is gone."""
        self.job[:], self.partner[:] = row_J[self.job], np.append(row_J, ALONE)[self.partner]


def entitlements(live: LiveJobs, promises: Promises, accelerators: Sequence[str]) -> Entitlements:
    """What was promised to jobs that are still here and run there: jobs alone in their order, then pairs.

    The same configuration over several servers counts with it.
    """
    given = promises.configurations
    type_A = np.array([accelerators.index(name) for name in promises.accelerators], dtype=np.int64)
    job, alone, type_ = live.rows(given.job), given.partner == ALONE, type_A[given.type]
    partner = given.partner if alone.all() else live.rows(given.partner)
    here = (job >= 0) & (alone | (partner >= 0))
    runs = np.zeros(len(job), dtype=bool)
    runs[here] = live.throughput[job[here], type_[here]] > 0
    others = None
    if given.has_mixes:
        others = np.zeros((len(job), len(accelerators)), dtype=np.int64)
        others[:, type_A] = widened(given.others, len(type_A))
        mixed = here & others.any(axis=1)  # the speed on a type by itself may not be known
        speed_JA, first = live.throughput[job[mixed]], live.throughput[job[mixed], type_[mixed]]
        runs[mixed] = (first != 0) & ((speed_JA != 0) | (others[mixed] == 0)).all(axis=1)
    here &= runs
    partner, together = np.where(alone, ALONE, partner), np.zeros(len(job), dtype=bool)
    found = ConfigurationSet.of(job, partner, type_, given.devices, together, given.batch, others).take(here)
    ways = Entitlements.of_shares(found, promises.share_P[here])
    return ways.in_order(merged=bool(given.spread.any()))
