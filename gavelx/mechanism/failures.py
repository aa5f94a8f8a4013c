"""What a failed launch means: when the job is tried again and where, when it is given up, which servers are bad.

A job that failed tries another server first, at once if one is free, and otherwise after ``Rules.retry_s``; each
further failure doubles the wait. A server on which different jobs fail shortly after launch, while none of them
failed elsewhere, is put aside: it gets no leases for a while, and failures there do not count against the jobs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gavelx.jobs import Job
from gavelx.mechanism.rules import Rules

AT_MOST_S = 3600.0
"""No job waits longer than this to be tried again."""
QUICK_S = 60.0
"""A launch that fails within this time says something about its server."""
REMEMBERED_S = 3600.0
"""Older failures say nothing about a server any more."""
ASIDE_S = 600.0
"""A server is put aside for this long at first, and for twice as long each time that it fails again."""


@dataclass
class _Tries:
    """The failures of a job since it last saved a step."""

    until_s: float = 0.0
    """It is not tried again before, except on servers where it has not failed."""
    elsewhere: bool = False
    """It may begin on another server before that."""
    servers: dict[int, int] = field(default_factory=dict)
    """How often it failed on each server."""


class Aside(NamedTuple):
    """A server that is put aside: until when, and why."""

    until_s: float
    reason: str


class Failures:
    """The failures of live jobs and of servers; ``now_s`` are seconds, jobs and servers are told by id."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.aside: dict[int, Aside] = {}
        self.too_small: dict[int, frozenset[str]] = {}
        """By job: accelerator types in whose memory it does not fit."""
        self._tries: dict[int, _Tries] = {}
        self._quick: dict[
            int, dict[int, float]
        ] = {}  # by server: when which jobs failed there shortly after launch
        self._times_aside: dict[int, int] = {}

    @property
    def any(self) -> bool:
        """Whether anything is remembered of a job or a server, which a saved step may make good."""
        return bool(self._tries or self._quick or self._times_aside)

    # -- jobs -------------------------------------------------------------------------------------------------

    def failed(
        self, job_id: int, servers: frozenset[int], count: int, now_s: float, *, held_s: float, elsewhere: bool
    ) -> None:
        """A lease on these servers failed after ``held_s``; it is failure number ``count`` of the job in a row.

        ``elsewhere``: there are other servers on which the job can run.
        """
        tries = self._tries.setdefault(job_id, _Tries())
        tries.until_s = now_s + min(AT_MOST_S, self.rules.retry_s * 2.0 ** (count - 1))
        tries.elsewhere = count == 1
        for server_id in servers:
            tries.servers[server_id] = tries.servers.get(server_id, 0) + 1
        for other, jobs in self._quick.items():
            if other not in servers:
                jobs.pop(job_id, None)  # it fails in other places too: that says nothing about this one
        if elsewhere and held_s <= QUICK_S and len(servers) == 1 and len(tries.servers) == 1:
            for server_id in servers:
                self._quick.setdefault(server_id, {})[job_id] = now_s

    def is_final(self, job: Job, count: int, held_s: float, exit_code: int, *, has_saved: bool) -> bool:
        """Whether a failed job is given up.

        A job that ran for longer than ``Rules.final_s``, saved nothing, and ended with an exit code of its own
        would pay for all of that again: it is given up unless its user asked for retries.
        """
        if job.retries is not None:
            return count > job.retries
        runs_again = held_s < self.rules.final_s or has_saved or exit_code <= 0
        return count >= self.rules.max_failures or not runs_again

    def waits(self, job_id: int, now_s: float) -> bool:
        """Whether a job waits before it is tried again on a server where it failed."""
        tries = self._tries.get(job_id)
        return tries is not None and now_s < tries.until_s

    def may_begin_elsewhere(self, job_id: int) -> bool:
        """Whether a job that waits may begin before that on other servers."""
        return self._tries[job_id].elsewhere

    def waiting(self, now_s: float) -> list[int]:
        """The jobs that wait before they are tried again."""
        return [job_id for job_id, tries in self._tries.items() if now_s < tries.until_s]

    def until_s(self, job_id: int) -> float:
        """When a failed job is tried again; 0 if it has not failed."""
        tries = self._tries.get(job_id)
        return 0.0 if tries is None else tries.until_s

    def avoided(self, job_id: int) -> frozenset[int]:
        """The servers on which a job failed."""
        tries = self._tries.get(job_id)
        return frozenset(()) if tries is None else frozenset(tries.servers)

    def came_forward(self, job_id: int, servers: Iterable[int]) -> None:
        """A job saved a step or is complete on these servers: neither it nor they are bad."""
        self._tries.pop(job_id, None)
        for server_id in servers:
            self.forget_server(server_id)

    def forget(self, job_id: int) -> None:
        """A job is done; what its failures say about servers stays."""
        self._tries.pop(job_id, None)
        self.too_small.pop(job_id, None)

    def does_not_fit(self, job_id: int, accelerators: Iterable[str]) -> None:
        """The memory of these accelerator types is too small for a job."""
        if types := frozenset(accelerators):
            self.too_small[job_id] = self.too_small.get(job_id, frozenset()) | types

    # -- servers ----------------------------------------------------------------------------------------------

    def forget_server(self, server_id: int) -> None:
        """A server came anew, an operator took it back, or a job did well there."""
        self._quick.pop(server_id, None)
        self._times_aside.pop(server_id, None)
        self.aside.pop(server_id, None)

    def is_bad(self, server_id: int, now_s: float) -> bool:
        """Whether enough different jobs failed there and nowhere else; after a first time aside, one is enough."""
        jobs = self._quick.get(server_id, {})
        recent = [job_id for job_id, at_s in jobs.items() if now_s - at_s <= REMEMBERED_S]
        wanted = 1 if server_id in self._times_aside else self.rules.bad_server_jobs
        return bool(wanted) and len(recent) >= wanted

    def put_aside(self, server_id: int, now_s: float) -> dict[int, int]:
        """A server gets no leases for a while. Says how many failures of which jobs were its fault."""
        jobs = self._quick.pop(server_id, {})
        times = self._times_aside[server_id] = self._times_aside.get(server_id, 0) + 1
        many = f"{len(jobs)} different jobs" if len(jobs) > 1 else "another job"
        reason = f"{many} failed there shortly after launch"
        self.aside[server_id] = Aside(now_s + min(6 * AT_MOST_S, ASIDE_S * 2.0 ** (times - 1)), reason)
        excused = dict[int, int]()
        for job_id in jobs:
            if (tries := self._tries.get(job_id)) is not None:
                excused[job_id] = tries.servers.get(server_id, 0)
                tries.until_s = now_s
        return excused

    def over(self, now_s: float) -> list[int]:
        """The servers whose time aside is over."""
        return [server_id for server_id, aside in self.aside.items() if aside.until_s <= now_s]
