"""The published simulator's rules written down one by one: slow, and apart from `gavelx.published`.

``test_literally.py`` compares the rules named ``published`` with this, on runs of which there is no
recording. It is one loop over rounds, in plain dictionaries; floats are added in the published order, because
there times that are equal to the last bit decide who runs. Four policies are here: ``fifo`` (published as
``fifo_perf``), ``allox``, ``isolated``, and ``gandiva`` while all jobs have room. Left out are jobs that share a
device, and rounds that are too short for a step.

Source: D. Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads (OSDI
2020), section 5, and the simulator published with it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from scipy.optimize import linear_sum_assignment

from gavelx.jobs import Job
from gavelx.throughputs import Throughputs

TYPES = ("v100", "p100", "k80")
"""There are no others; they are served in this order, however the user named them."""

SOLVE_INTERVAL_S = 1920.0
SLOWEST = 1e-10
"""Steps/s that AlloX takes for a job on a type where it cannot run."""

Shares = dict[int, dict[str, float]]
"""Part of its time that a job was promised on each type."""


@dataclass
class Run:
    """A run so far. Jobs go by their id; what is kept by (job, type) starts when the job is admitted."""

    devices: dict[str, int]
    throughputs: Throughputs
    round_s: float
    usd_per_hour: Mapping[str, float]
    now_s: float = 0.0
    round_end_s: float = 0.0  # of the last round in which something ran
    solved_s: float = 0.0  # when the policy was asked last
    changed: bool = False  # jobs came or went since
    live: dict[int, Job] = field(default_factory=dict)  # in order of arrival
    steps_left: dict[int, float] = field(default_factory=dict)
    shares: Shares = field(default_factory=dict)  # a job that the policy has not seen yet has none
    received_s: dict[tuple[int, str], float] = field(default_factory=dict)
    all_received_s: dict[str, float] = field(default_factory=dict)  # sums of the above by type
    owed_s: dict[tuple[int, str], float] = field(default_factory=dict)
    running: list[tuple[float, int, str, float]] = field(default_factory=list)  # end_s, job, type, steps
    completion_s: dict[int, float] = field(default_factory=dict)  # since arrival
    usd: float = 0.0
    busy_device_s: float = 0.0

    def speed(self, i: int, name: str) -> float:
        """Steps/s of a live job on this type; 0 where it cannot run."""
        job = self.live[i]
        return self.throughputs.get(job.job_type, name, job.scale_factor) or 0.0

    def share(self, i: int, name: str) -> float:
        """The part of its time that a live job was promised on this type."""
        return self.shares[i][name] if i in self.shares else 0.0

    def priority(self, i: int, name: str) -> float:
        """The share promised over the part that it received of the type's time."""
        if self.share(i, name) == 0 or self.speed(i, name) == 0:
            return 0.0
        return self.share(i, name) / (self.received_s[i, name] / self.all_received_s[name])


def simulate(
    policy: str,
    jobs: Sequence[Job],
    device_counts: Mapping[str, int],
    throughputs: Throughputs,
    *,
    usd_per_hour: Mapping[str, float],
    seed: int = 0,
    round_s: float = 360.0,
    window: slice | None = None,
) -> Run:
    """Jobs, in order of arrival, until all of them (or those of the window) are complete."""
    devices = {name: device_counts[name] for name in TYPES if device_counts.get(name)}
    run = Run(devices, throughputs, round_s, usd_per_hour, all_received_s=dict.fromkeys(devices, 0.0))
    coming, wanted = deque(jobs), jobs[window or slice(None)]
    type_chance = Random(seed + 5)
    while not all(job.id in run.completion_s for job in wanted):
        finish_round(run, coming[0].arrival_s if coming else run.now_s)
        while coming and coming[0].arrival_s <= run.now_s:
            admit(run, coming.popleft())
        if run.changed and (run.now_s - run.solved_s >= SOLVE_INTERVAL_S or run.solved_s == 0):
            restart_times(run)
            run.shares, run.solved_s, run.changed = POLICIES[policy](run), run.now_s, False
        types = list(devices)
        if policy == "isolated":  # types are shuffled for policies that do not look at speeds
            type_chance.shuffle(types)
        start_round(run, selected(run, types, backfill=policy != "fifo"))
        if not run.running and not coming:
            run.solved_s = 0.0  # nothing else would move the clock
    return run


def finish_round(run: Run, next_arrival_s: float) -> None:
    """A round ends with its last job, and each job has had its devices since the end of the round before.

    So an idle gap before a round counts as time received, and is paid. If nothing runs, the next job arrives.
    """
    began_s = run.round_end_s
    run.now_s = max((end_s for end_s, *_ in run.running), default=next_arrival_s)
    if run.running:
        run.round_end_s = run.now_s
    for end_s, i, name, steps in sorted(run.running, key=lambda task: (-task[0], task[1])):
        job, took_s = run.live[i], end_s - began_s
        run.received_s[i, name] += took_s
        run.all_received_s[name] += took_s
        run.busy_device_s += took_s * job.scale_factor
        run.usd += run.usd_per_hour[name] * took_s / 3600.0 * job.scale_factor
        run.steps_left[i] -= steps
        if run.steps_left[i] <= 0:
            run.completion_s[i] = end_s - job.arrival_s
            del run.live[i]
            run.shares.pop(i, None)
            run.changed = True


def admit(run: Run, job: Job) -> None:
    """A job that arrived during a round joins at its end, with half a round received of every type."""
    run.live[job.id], run.steps_left[job.id], run.changed = job, job.total_steps, True
    for name in run.devices:
        run.received_s[job.id, name], run.owed_s[job.id, name] = run.round_s / 2, 0.0


def restart_times(run: Run) -> None:
    """Before the policy is asked: what was promised but not received is owed, and times start again."""
    for name in run.devices:
        run.all_received_s[name] = 0.0
        for i in run.live:
            promised_s = run.share(i, name) * (run.now_s - run.solved_s)
            run.owed_s[i, name] += promised_s - (run.received_s[i, name] - run.round_s / 2)
            run.received_s[i, name] = run.round_s / 2
            run.all_received_s[name] += run.round_s / 2


def selected(run: Run, types: Sequence[str], *, backfill: bool) -> list[tuple[int, str]]:
    """Who gets devices of which type: by share over the part of the type's time, then by what is owed."""
    chosen: dict[int, str] = {}
    for name in types:
        free = run.devices[name]
        keys = {i: (run.priority(i, name), run.owed_s[i, name], run.share(i, name)) for i in run.live}
        for i in sorted(keys, key=lambda i: keys[i], reverse=True):  # stable: older jobs first
            may = run.speed(i, name) > 0 and (backfill or keys[i][0] > 0)
            if may and i not in chosen and run.live[i].scale_factor <= free:
                chosen[i] = name
                free -= run.live[i].scale_factor
    return list(chosen.items())


def start_round(run: Run, chosen: Sequence[tuple[int, str]]) -> None:
    """As many whole steps as fit. For jobs that the policy has not seen yet, devices stay idle."""
    run.running = []
    for i, name in chosen:
        if i in run.shares:
            speed = run.speed(i, name)
            steps = min(int(speed * run.round_s), run.steps_left[i])
            run.running.append((run.now_s + steps / speed, i, name, steps))


def fifo(run: Run) -> Shares:
    """The oldest jobs, each on its fastest type with room, up to the first one that has no room anywhere."""
    shares: Shares = {i: dict.fromkeys(run.devices, 0.0) for i in run.live}
    free = dict(run.devices)
    for i, job in run.live.items():
        room = [name for name in sorted(free) if free[name] >= job.scale_factor]
        if not room:
            break
        name = max(room, key=lambda name: run.speed(i, name))
        if run.speed(i, name) > 0:
            shares[i][name] = 1.0
            free[name] -= job.scale_factor
    return shares


def allox(run: Run) -> Shares:
    """Whoever has a device keeps it; the others are matched with places in the free devices' queues.

    To be the k-th from the last on a device costs k times the time that the job needs there.
    """
    shares: Shares = {i: dict.fromkeys(run.devices, 0.0) for i in run.live}
    held = {i: name for i in run.live for name in run.devices if run.share(i, name) == 1.0}
    free = [name for name in sorted(run.devices) for _ in range(run.devices[name])]
    for i, name in held.items():
        shares[i][name] = 1.0
        free.remove(name)
    queue = [i for i in run.live if i not in held]
    if not queue or not free:
        return shares
    needs_s = np.array([[run.steps_left[i] / max(run.speed(i, name), SLOWEST) for name in free] for i in queue])
    age_s = np.array([[run.now_s - run.live[i].arrival_s] for i in queue])
    row_n, place_n = linear_sum_assignment(np.hstack([(k + 1) * needs_s + age_s for k in range(len(queue))]))
    next_on = {int(place_n[n]) % len(free): queue[row_n[n]] for n in np.argsort(place_n)}  # highest k stays
    for device, i in next_on.items():
        shares[i][free[device]] = 1.0
    return shares


def isolated(run: Run) -> Shares:
    """An equal part of every type for every job, also where it cannot run, and no more than all of its time."""
    shares: Shares = {}
    for i, job in run.live.items():
        parts = {name: run.devices[name] / len(run.live) / job.scale_factor for name in sorted(run.devices)}
        time = max(1.0, float(np.sum(list(parts.values()))))  # the built-in sum rounds otherwise
        shares[i] = {name: part / time for name, part in parts.items()}
    return shares


def gandiva(run: Run) -> Shares:
    """Equal parts, while there is a device for everyone; then nobody has to share one."""
    assert sum(job.scale_factor for job in run.live.values()) <= sum(run.devices.values())
    return isolated(run)


POLICIES: Mapping[str, Callable[[Run], Shares]] = {
    "fifo": fifo,
    "allox": allox,
    "isolated": isolated,
    "gandiva": gandiva,
}
