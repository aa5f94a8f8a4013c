"""The rules of the mechanism. (Those called ``published`` have a simulator of their own, `gavelx.published`.)"""

from dataclasses import dataclass, replace

from gavelx.overheads import FREE, Overheads


@dataclass(frozen=True)
class Rules:
    """How rounds, priorities, gangs and idle devices are handled.

    * ``round_s``: length of a round, the step in which devices change hands;
    * ``solve_interval_s``: least time between two calls of the policy;
    * ``small_change``: the policy is asked again when this part of the live jobs came or went since it last was
      (where shares are divided between owners, this part of any owner's), or ``small_change_s`` after that; a new
      job may run meanwhile, where it is at least half as fast as anywhere. Up to twenty jobs each one counts; with
      thousands, a policy that gives shares of time need not be asked for every one;
    * ``turn``: a job that runs makes way for one that is further behind by more than a turn. A turn is a round or,
      if that is longer, this part of the time for which the job has held devices so far: short jobs are served
      round by round, long ones in longer turns, and who will be complete within a round stays;
    * ``backfill``: let a job run on a type on which it was promised nothing, where devices are idle, if it is at
      least this part as fast there as on the fastest type, and has waited for ``backfill_after_s``; 0 is any
      type, None never;
    * ``min_run_s``: a job is not preempted before it has run for so long;
    * ``protect_s``: nor, before it has run for so long, one that would lose its work, as others did already
      (:mod:`gavelx.mechanism.protection`);
    * ``overheads``: what preemption costs, as far as known; victims are chosen by it;
    * ``max_failures``: a job that failed so often without a step in between is given up, unless its
      user said how many retries it has;
    * ``retry_s``: a job that failed is tried again after this time, after twice as long the next time, and so on;
      the first retry begins at once if another server is free for it;
    * ``final_s``: a job that ran for this long, saved nothing, and ends with an exit code other than 0 is given up
      at once, unless its user asked for retries;
    * ``bad_server_jobs``: a server on which so many different jobs failed shortly after launch, and nowhere else,
      is put aside for a while; 0: never;
    * ``sleep_s``: rounds in which nothing can change are slept through, for at most so long. It changes nothing
      but the time that a simulation takes; leases are longer, so a service that may die sets it to 0.
    """

    name: str
    round_s: float = 360.0
    solve_interval_s: float = 0.0
    small_change: float = 0.05
    small_change_s: float = 1800.0
    turn: float = 0.1
    backfill: float | None = 0.8
    backfill_after_s: float = 0.0
    min_run_s: float = 0.0
    protect_s: float = 7 * 86400.0
    overheads: Overheads = FREE
    max_failures: int = 5
    retry_s: float = 60.0
    final_s: float = 300.0
    bad_server_jobs: int = 3
    sleep_s: float = 0.0

    def with_round(self, round_s: float) -> "Rules":
        """The same rules with rounds of another length."""
        return replace(self, round_s=round_s)


DEFAULT = Rules("default")
