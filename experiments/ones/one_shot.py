"""Schedulers that ONES is compared with, and that no cluster would want: sized once, or planned now and then."""

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies import Policy
from gavelx.policies.choices import Choices
from gavelx.policies.greedy import by_arrival
from gavelx.snapshot import WAITING, Kind, Snapshot

Bools = NDArray[np.bool_]


class OneShot(Policy):
    """Give each job a number of devices when it starts, for good: in place of a learned scheduler.

    A job that starts gets ``part`` of the free devices, divided by the jobs that wait; at least ``least``, without
    which it waits, and at most ``most``. Jobs start in order of arrival; none is resized or preempted.

    ONES (SC'21) compares itself with a scheduler by deep reinforcement learning that sizes jobs once and keeps the
    batch that a user asked for. Its network is not published. This stands in for it: three constants, the best of
    a grid on other seeds (`search`), in place of weights. A better one may well exist.
    """

    name = "one_shot"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes"})

    def __init__(self, part: float = 0.5, least: int = 8, most: int = 16) -> None:
        self.part, self.least, self.most = part, least, most

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s, choices = perf_counter(), Choices.of(snapshot)
        chosen_V = started_V(choices, choices.now_V(), self.part, self.least, self.most)
        execution = Execution(backfill=False, whole_devices=True)
        return choices.allocation(chosen_V, execution, path="sized once", seconds=perf_counter() - begin_s)


class Planned(Policy):
    """Ask the policy every ``interval_s`` seconds alone; until then running jobs keep their devices, others wait.

    ``at_once``: free devices are given to waiting jobs between two plans, each its part of them, at most
    ``AT_ONCE_MOST``. Optimus (EuroSys'18) plans every ten minutes, and ONES (SC'21) compares itself with that.
    """

    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes"})
    AT_ONCE_MOST = 8

    def __init__(self, policy: Policy, interval_s: float, *, at_once: bool) -> None:
        self.policy, self.interval_s, self.at_once = policy, interval_s, at_once

    def allocate(self, snapshot: Snapshot) -> Allocation:
        planned_s = float(snapshot.memory.get("planned_s", np.array([-np.inf]))[0])
        begin_s, left_s = perf_counter(), planned_s + self.interval_s - snapshot.time_s
        if left_s <= 1e-6:
            memory = {"planned_s": np.array([snapshot.time_s])}
            return self.policy.allocate(snapshot).with_memory(memory)
        choices = Choices.of(snapshot)
        chosen_V = choices.now_V()
        if self.at_once:
            chosen_V = started_V(choices, chosen_V, 1.0, 1, self.AT_ONCE_MOST)
        execution = Execution(backfill=False, whole_devices=True, refresh_s=left_s)
        facts = {"path": "the plan of before", "seconds": perf_counter() - begin_s}
        return choices.allocation(chosen_V, execution, **facts).with_memory(snapshot.memory)


def started_V(choices: Choices, now_V: Bools, part: float, least: int, most: int) -> Bools:
    """The sizes that jobs have, and sizes for those that wait, as long as there are ``least`` devices for each."""
    snapshot, chosen_V = choices.snapshot, now_V.copy()
    free = int(snapshot.devices_A.sum() - choices.devices_V[now_V].sum())
    queue = [j for j in by_arrival(snapshot) if snapshot.running_J[j] == WAITING]
    for place, j in enumerate(queue):
        wants = min(most, max(least, round(part * free / (len(queue) - place))))
        fits = np.flatnonzero((choices.job_V == j) & (choices.devices_V <= min(wants, free)))
        if free < least or not len(fits):
            break
        v = fits[choices.devices_V[fits].argmax()]
        chosen_V[v], free = True, free - int(choices.devices_V[v])
    return chosen_V
