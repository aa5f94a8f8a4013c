"""Execution: how an allocation is to be carried out, where its shares do not say it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Execution:
    """What the mechanism may do with an allocation, and when it asks again.

    * ``backfill``: idle devices may be filled with jobs that have no share; otherwise a job without a share waits
      for its turn (as in first come, first served);
    * ``quota``: shares are quotas: no job may be ahead of what it was promised, even if devices are idle;
    * ``whole_devices``: shares are devices handed out, not parts of time;
    * ``may_move``: a running job may be restarted on other devices of its type, to make room for a gang; otherwise
      it keeps its very devices, as under a policy that preempts no job;
    * ``knows_types``: the policy tells accelerator types apart; otherwise it only counts devices;
    * ``by_owner``: shares are divided between owners first, so a job more or less matters to its owner's others;
    * ``refresh_s``: ask the policy again after so many seconds (at the next round), even if nothing has changed;
      None, only when jobs, devices or prices change.
    """

    backfill: bool = True
    quota: bool = False
    whole_devices: bool = False
    may_move: bool = True
    knows_types: bool = True
    by_owner: bool = False
    refresh_s: float | None = None


DEFAULT = Execution()
