"""When the policy is asked: something has changed, enough of it, and it was not asked just before."""

from collections import Counter

from gavelx.execution import DEFAULT, Execution
from gavelx.mechanism.rules import Rules

NEVER = float("inf")


class SolveTrigger:
    """What has changed since the policy was last asked, and when it may be asked again."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.dirty = False  # jobs, devices or prices changed since the policy was last asked
        self.pending_since_s: float | None = None  # when it was asked what it has not answered yet
        self.last_s = -NEVER  # when it answered last
        self.refresh_at_s = NEVER  # when it wants to be asked again though nothing changed
        self._changes = 0.0  # of the jobs: how many came or went; infinite, if something else changed
        self._changed: Counter[str] = Counter()  # the same, by owner
        self._jobs: Counter[str] = Counter()  # that came and have not gone, by owner
        self._execution = DEFAULT  # of its last answer

    # -- what happens -----------------------------------------------------------------------------------------

    def job_came(self, owner: str) -> None:
        """It was submitted. What is known is ``dirty`` once the job has been let in, if that matters."""
        self._changes += 1
        self._changed[owner] += 1
        self._jobs[owner] += 1

    def jobs_let_in(self, *, later: bool) -> None:
        """Jobs that came are let in; ``later``: they arrived after all the others.

        Where the policy is not asked at any time, being asked about them takes up its turn.
        """
        if not (later and self._execution.later_jobs_wait and self.rules.solve_interval_s == 0.0):
            self.dirty = True

    def job_went(self, owner: str) -> None:
        self.dirty = True
        self._changes += 1
        self._changed[owner] += 1
        self._jobs[owner] -= 1

    def job_withdrawn(self, owner: str) -> None:
        """It left before it was let in."""
        self._jobs[owner] -= 1

    def all_changed(self) -> None:
        """Devices or prices are others, or the policy is: it does not matter how many jobs changed."""
        self.dirty, self._changes = True, NEVER

    def round_begins(self, now_s: float) -> None:
        if self.is_to_be_renewed(now_s):
            self.all_changed()

    def asked(self, now_s: float, jobs: int) -> None:
        """The question goes out; without jobs there is none."""
        self.dirty, self._changes, self.refresh_at_s = False, 0.0, NEVER
        self._changed.clear()
        if jobs:
            self.pending_since_s = now_s
        else:
            self.last_s = now_s

    def answered(self, now_s: float, execution: Execution) -> None:
        self.pending_since_s, self.last_s, self._execution = None, now_s, execution
        if execution.refresh_s is not None:
            self.refresh_at_s = now_s + execution.refresh_s

    # -- what follows -----------------------------------------------------------------------------------------

    def must_ask(self, now_s: float, jobs: int) -> bool:
        """Whether to ask now: something changed, and it was not asked just before."""
        may = now_s - self.last_s >= self.rules.solve_interval_s
        return self.dirty and may and self.is_worth_asking(now_s, jobs)

    def is_worth_asking(self, time_s: float, jobs: int) -> bool:
        """Whether enough of the jobs will have come or gone by then if nothing more changes, or it is long ago."""
        enough = self._changes >= self.rules.small_change * jobs or self._matters_to_an_owner()
        return enough or self._execution.whole_devices or time_s - self.last_s >= self.rules.small_change_s

    def may_ask_s(self, now_s: float, jobs: int) -> float:
        """From when on it may be asked if nothing more changes."""
        wait_s = 0.0 if self.is_worth_asking(now_s, jobs) else self.rules.small_change_s
        return self.last_s + max(self.rules.solve_interval_s, wait_s)

    def is_to_be_renewed(self, time_s: float) -> bool:
        """Whether the policy wants to be asked again at a round that begins then: of two, the nearer one."""
        return time_s >= self.refresh_at_s - self.rules.round_s / 2

    def are_few(self, new: int, jobs: int) -> bool:
        """Whether so many new jobs are too few to ask for, so that they may run before they are asked about."""
        if self._execution.whole_devices:  # a job that gets devices may keep them
            return False
        return new < self.rules.small_change * jobs and not self._matters_to_an_owner()

    def _matters_to_an_owner(self) -> bool:
        """Whether owners share, and enough of the jobs of one came or went; the first and the last always are."""
        part, jobs = self.rules.small_change, self._jobs
        return self._execution.by_owner and any(n >= part * jobs[owner] for owner, n in self._changed.items())
