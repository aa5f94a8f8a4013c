"""Policies of gavelx in the rounds of Sia's simulator: what they are shown there, and what comes of their answers.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Literal

import numpy as np

from experiments.sia.rounds import Place, Running, Servers
from gavelx.cluster import Cluster, Server
from gavelx.configuration import ConfigurationSet
from gavelx.configurations import Configurations
from gavelx.estimator.model_table import placed
from gavelx.files.configuration_rows import ConfigurationRow, configurations_of
from gavelx.jobs import Job
from gavelx.policies import MaxSumThroughput
from gavelx.policies.base import Policy
from gavelx.promises import Promises
from gavelx.snapshot import WAITING, Snapshot

SURE_S = 1e12
WIDEST = 64


Growth = Literal["doubling", "first on one", "at once"]


class WholeDevices:
    """A policy that gives each job one size or none. A job with a batch of its own has its width as well.

    ``growth``: a job begins on one device, and has at most twice as many as it ever had; it begins on one; or
    neither. The restart factor of the paper counts restarts, which a snapshot does not know: the age that is shown
    is such that the policy's own factor is the same. A job in its pause stays where it is.
    """

    def __init__(
        self, policy: Policy, servers: Servers, growth: Growth = "at once", restart_s: float = 30.0
    ) -> None:
        self.policy, self.servers, self.growth, self.restart_s = policy, servers, growth, restart_s

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]:
        fixed = {job.name: job.place for job in jobs if job.place is not None and job.pause_s > 0.0}
        free = [job for job in jobs if job.name not in fixed]
        snapshot = self._snapshot(now_s, free, list(fixed.values()))
        if snapshot is None:
            return fixed
        allocation = self.policy.allocate(snapshot)
        table = allocation.snapshot.configurations
        chosen = {
            free[j].name: (snapshot.accelerators[table.accelerator_C[c]], int(table.devices_C[c]))
            for j, c in zip(table.job_M.tolist(), table.configuration_M.tolist(), strict=True)
            if allocation.share_C[c] > 0.5
        }
        return fixed | chosen

    def _snapshot(self, now_s: float, jobs: Sequence[Running], taken: Sequence[Place]) -> Snapshot | None:
        left = {
            name: self.servers.total(name) - sum(n for one, n in taken if one == name)
            for name in self.servers.count
        }
        cluster = self._cluster(left)
        names = cluster.accelerators
        rows = [row for j, job in enumerate(jobs) for row in self._rows(j, job, names, left)]
        if not rows:
            return None
        J = len(jobs)
        held = [job for job in jobs if job.place is not None]
        places = [job.place for job in held if job.place is not None]
        ids = {job.name: j for j, job in enumerate(jobs)}
        promised = ConfigurationSet.alone(
            np.array([ids[job.name] for job in held], dtype=np.int64),
            np.array([names.index(name) for name, _ in places], dtype=np.int64),
            np.array([devices for _, devices in places], dtype=np.int64),
        )
        return Snapshot(
            cluster=cluster,
            jobs=tuple(
                Job(j, job.name, 1e9, scale_factor=job.devices, arrival_s=job.arrival_s)
                for j, job in enumerate(jobs)
            ),
            known=configurations_of(rows, (J, len(names))),
            steps_left_J=np.full(J, 1e9),
            elapsed_s_J=np.array([self._shown_s(job, now_s - job.arrival_s) for job in jobs]),
            usd_per_hour_A=np.full(len(names), np.nan),
            running_J=np.array(
                [WAITING if job.place is None else names.index(job.place[0]) for job in jobs], dtype=np.int64
            ),
            promised=Promises(names, promised, np.ones(len(held))),
            opened=frozenset({"sizes"}),
        )

    def _cluster(self, left: Mapping[str, int]) -> Cluster:
        """These devices, in full servers as far as possible."""
        ids, servers = count(), list[Server]()
        for name, devices in left.items():
            servers += [
                Server(next(ids), name, each) for each in placed(devices, self.servers.devices[name]) if each
            ]
        return Cluster(tuple(servers), tuple(name for name, devices in left.items() if devices))

    def _shown_s(self, job: Running, age_s: float) -> float:
        """The age at which the policy's factor is ``max(T - N S, 0) / (T + S)``."""
        if age_s < job.restart_s:
            return SURE_S
        factor = max(age_s - max(0, job.starts - 1) * job.restart_s, 0.0) / (age_s + job.restart_s)
        return self.restart_s * factor / (1.0 - factor)

    def _rows(
        self, j: int, job: Running, names: Sequence[str], left: Mapping[str, int]
    ) -> Iterator[ConfigurationRow]:
        for a, name in enumerate(names):
            first = True
            for devices in self._widths(job, name):
                speed = job.application.speed(job.steps, (name, devices), self.servers, job.batch)
                if speed > 0.0 and devices <= left[name]:
                    yield ConfigurationRow((j,), a, devices, (speed,), own=first)
                    first = False

    def _widths(self, job: Running, name: str) -> list[int]:
        """Powers of two in a server, then whole servers."""
        if job.batch:
            return [job.devices]
        most, each = WIDEST, self.servers.devices[name]
        if self.growth == "doubling" or (self.growth == "first on one" and not job.widest):
            most = max(2 * job.widest, 1)
        small = [1 << n for n in range(each.bit_length()) if 1 << n <= each]
        large = [each * n for n in range(2, self.servers.count[name] + 1)]
        return [devices for devices in (*small, *large) if devices <= most]


class Shares:
    """Gavel as that simulator has it: raw updates/s, and priority to those who have had least of their share."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]:
        names = tuple(self.servers.count)
        servers = [
            Server(n, name, self.servers.devices[name])
            for n, name in enumerate(name for name in names for _ in range(self.servers.count[name]))
        ]
        speed_JA = np.array(
            [
                [job.application.updates_per_s((name, job.devices), self.servers, job.batch) for name in names]
                for job in jobs
            ]
        )
        devices_J = np.array([job.devices for job in jobs], dtype=np.int64)
        J = len(jobs)
        snapshot = Snapshot(
            cluster=Cluster(tuple(servers), names),
            jobs=tuple(_job(j, job) for j, job in enumerate(jobs)),
            known=Configurations.of_matrix(speed_JA, devices_J),
            steps_left_J=np.full(J, 1e9),
            elapsed_s_J=np.zeros(J),
            usd_per_hour_A=np.full(len(names), np.nan),
        )
        share_JA = MaxSumThroughput().allocate(snapshot).share_JA
        had_JA = np.array(
            [[job.had_s.get(name, 0.0) / (now_s - job.arrival_s + 1.0) for name in names] for job in jobs]
        )
        urgent_JA = share_JA / np.maximum(had_JA, 1e-6)
        free, places = {name: self.servers.total(name) for name in names}, dict[str, Place]()
        order = sorted(np.ndindex(*share_JA.shape), key=lambda ja: (-urgent_JA[ja], -speed_JA[ja]))
        for j, a in order:
            job, name = jobs[j], names[a]
            if job.name not in places and job.devices <= free[name]:
                places[job.name] = name, job.devices
                free[name] -= job.devices
        return places


def _job(j: int, job: Running) -> Job:
    return Job(j, job.name, 1e9, scale_factor=job.devices, arrival_s=job.arrival_s)
