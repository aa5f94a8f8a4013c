"""Short simulations: every job is done, gangs included, and a second run is like the first.

Idle devices are not filled with jobs without a share there, so only the policy decides which jobs run.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.memory import Memory
from gavelx.policies import Policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.testing.checks import Checks, RefusedError
from gavelx.testing.snapshots import of_size
from gavelx.throughputs import Setting, Throughputs

RULES = replace(DEFAULT, backfill=None)
CLUSTER = Cluster.of({"v100": 4, "k80": 4})
PRICES = Prices({"v100": 2.5, "k80": 0.5})
SPEEDS = {"kind 0": (4.0, 1.0), "kind 1": (3.0, 3.0), "kind 2": (0.0, 2.0), "kind 3": (10.0, 2.0)}
WIDTHS = (1, 2, 4)
TABLE = Throughputs(
    {
        Setting(kind, name, width): speed
        for kind, row in SPEEDS.items()
        for name, speed in zip(("v100", "k80"), row, strict=True)
        for width in WIDTHS
    }
)
JOBS, SEEDS = 10, 3


class Forgetful(Policy):
    """The same policy, whose memory is dropped for one question of four, and is an old one for another."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name, self.opens = str(policy), policy.opens
        self._random = np.random.default_rng(0)
        self._first: Memory = {}

    def allocate(self, snapshot: Snapshot) -> Allocation:
        memory = ({}, self._first, snapshot.memory, snapshot.memory)[self._random.integers(4)]
        allocation = self.policy.allocate(snapshot.replace(memory=memory))
        self._first = self._first or allocation.memory
        return allocation


class Runs(Checks):
    """Checks of whole runs of the policy."""

    def test_every_job_is_done_in_a_short_simulation(self) -> None:
        """Ten jobs that arrive one after another, among them gangs as wide as a type."""
        for jobs in map(self._arriving, range(SEEDS)):
            left: tuple[int, ...] = ()
            with suppress(RefusedError):
                left = self._run(self.make_policy(), jobs).unfinished
            if left:
                wide = {job.id: job.scale_factor for job in jobs}
                seen = f"job {left[0]} ({wide[left[0]]} devices) is never done, and {len(left) - 1} others are not"
                hint = "shares for every job in its turn, or Execution(refresh_s=...) where time decides"
                self.fail("every job is done", seen, _start(jobs), hint)

    def test_a_second_run_is_like_the_first(self) -> None:
        """The same policy object, used again, keeps no state of the run before."""
        policy = self.make_policy()
        with suppress(RefusedError):
            before = [self._run(policy, self._arriving(seed)) for seed in range(SEEDS - 1)]
            for seed, result in enumerate(before):
                jobs = self._arriving(seed)
                self._check_same_run(result, self._run(policy, jobs), jobs)

    def test_what_it_remembers_may_be_forgotten(self) -> None:
        """Memory is dropped at random, or is that of long ago: answers stay feasible, and every job is done."""
        jobs = self._arriving(0)
        with suppress(RefusedError):
            if not self.ask(of_size(6)).memory:
                return
            left = self._run(Forgetful(self.make_policy()), jobs).unfinished
            if left:
                seen = f"job {left[0]} is never done where the policy's memory is sometimes dropped"
                hint = "snapshot.memory.get(name) with a default for what is not there"
                self.fail("what it remembers may be forgotten", seen, _start(jobs), hint)

    def _check_same_run(self, one: Result, other: Result, jobs: tuple[Job, ...]) -> None:
        first, second = one.completion_s_J, other.completion_s_J
        if not np.array_equal(first, second, equal_nan=True):
            j = int((first != second).argmax())
            seen = f"job {jobs[j].id} was done at {first[j]:.6g} s, and in a second run at {second[j]:.6g} s"
            self.fail("a second run is like the first", seen, _start(jobs), "no memory between calls")

    def _run(self, policy: Policy, jobs: tuple[Job, ...]) -> Result:
        with self._worded(_start(jobs)):
            return simulate(policy, jobs, CLUSTER, TABLE, PRICES, rules=RULES)

    def _arriving(self, seed: int) -> tuple[Job, ...]:
        """In order of arrival; everything else about them is drawn."""
        random = np.random.default_rng(seed)
        kinds, widths = list(SPEEDS), WIDTHS if self.gangs else (1,)
        return tuple(
            Job(
                id=int(job_id),
                job_type=kinds[random.integers(len(kinds))],
                total_steps=float(random.integers(200, 20_000)),
                scale_factor=int(random.choice(widths)),
                weight=float(random.choice((1.0, 5.0))),
                arrival_s=float(400 * j),
                slo=3.0 if random.random() < 0.3 else None,
                duration_s=20_000.0,
                owner=str(random.choice(("a", "a/ann", "b"))),
            )
            for j, job_id in enumerate(random.permutation(100)[:JOBS])
        )


def _start(jobs: tuple[Job, ...]) -> Snapshot:
    """The snapshot with all of these jobs, for the message of a failure."""
    return Snapshot.of(jobs, CLUSTER, TABLE, PRICES)
