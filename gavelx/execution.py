"""Execution: how the mechanism carries out an allocation, beyond its shares."""

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, slots=True)
class Execution:
    """What the mechanism may do with an allocation, and when it asks the policy again.

    * ``backfill``: idle devices may be filled with jobs that have no share; otherwise a job without a share waits
      (as in first come, first served);
    * ``quota``: shares are quotas: no job may receive more than it was promised, even if devices are idle;
    * ``whole_devices``: shares are devices handed out, not parts of time;
    * ``may_move``: a running job may be restarted on other devices of its type, to make room for a gang; otherwise
      it keeps its devices, as under a policy that never preempts;
    * ``knows_types``: the policy distinguishes accelerator types; otherwise it only counts devices;
    * ``by_owner``: shares are divided between owners first, so a new job takes from the other jobs of its owner;
    * ``later_jobs_wait``: a job that arrives after all of the snapshot gets nothing and changes nothing, until one
      of them is done or anything else changes; so the policy is not asked about it before;
    * ``refresh_s``: ask the policy again after this many seconds (at the next round), even if nothing has changed;
      None: only when jobs, devices or prices change;
    * ``first_on``: job ids and accelerator types: the first lease of such a job is on this type, in its turn, so
      that a speed is measured which is not known.
    """

    backfill: bool = True
    quota: bool = False
    whole_devices: bool = False
    may_move: bool = True
    knows_types: bool = True
    by_owner: bool = False
    later_jobs_wait: bool = False
    refresh_s: float | None = None
    first_on: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        """A number or truth of numpy becomes a plain one, as the log writes them."""
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), np.generic):
                object.__setattr__(self, field.name, value.item())


DEFAULT = Execution()
