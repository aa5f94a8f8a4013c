"""Policies of gavelx in the rounds of Sia's simulator: what they are shown there, and what comes of their answers.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Literal

import numpy as np

from experiments.sia.placing import anew
from experiments.sia.rounds import Application, Place, Running, Servers
from gavelx.cluster import Cluster, Server
from gavelx.configuration import ConfigurationSet
from gavelx.estimator.goodput import JobModel
from gavelx.estimator.model_table import placed
from gavelx.files.configuration_rows import ConfigurationRow, configurations_of
from gavelx.jobs import Job
from gavelx.policies.base import Policy
from gavelx.promises import Promises
from gavelx.snapshot import WAITING, Snapshot

SURE_S = 1e12
WIDEST = 64
RESTART_S = {"deepspeech2": 25.0, "bert": 120.0}
"""What the published program takes a restart to cost, not all of what one costs: 30 s for others."""
OTHERS_RESTART_S = 30.0


Growth = Literal["doubling", "first on one", "at once"]


def restart_factor(job: Running, age_s: float) -> float:
    """``max(T - N S, 0) / (T + S)``, for N restarts of S seconds; 1 before the first S seconds are over."""
    restart_s = RESTART_S.get(job.application.name, OTHERS_RESTART_S)
    if (job.served_s if job.total_batch else age_s) < restart_s:
        return 1.0
    return max(age_s - max(0, job.starts - 1) * restart_s, 0.0) / (age_s + restart_s)


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
        fixed = {
            job.name: (job.place.accelerator, job.place.devices)
            for job in jobs
            if job.place is not None and job.pause_s > 0.0
        }
        free = [job for job in jobs if job.name not in fixed]
        snapshot = self._snapshot(now_s, free, list(fixed.values()))
        if snapshot is None:
            return anew(fixed, self.servers)
        allocation = self.policy.allocate(snapshot)
        table = allocation.snapshot.configurations
        chosen = {
            free[j].name: (snapshot.accelerators[table.accelerator_C[c]], int(table.devices_C[c]))
            for j, c in zip(table.job_M.tolist(), table.configuration_M.tolist(), strict=True)
            if allocation.share_C[c] > 0.5
        }
        return anew(
            {job.name: (fixed | chosen)[job.name] for job in jobs if job.name in fixed | chosen}, self.servers
        )

    def _snapshot(
        self, now_s: float, jobs: Sequence[Running], taken: Sequence[tuple[str, int]]
    ) -> Snapshot | None:
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
            np.array([names.index(place.accelerator) for place in places], dtype=np.int64),
            np.array([place.devices for place in places], dtype=np.int64),
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
                [WAITING if job.place is None else names.index(job.place.accelerator) for job in jobs],
                dtype=np.int64,
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
        """The age at which the policy's factor is that of the published program."""
        factor = restart_factor(job, age_s)
        return SURE_S if factor == 1.0 else self.restart_s * factor / (1.0 - factor)

    def _rows(
        self, j: int, job: Running, names: Sequence[str], left: Mapping[str, int]
    ) -> Iterator[ConfigurationRow]:
        for a, name in enumerate(names):
            first = True
            for devices in self._widths(job, name):
                speed = believed_speed(job, name, devices, self.servers)
                if speed > 0.0 and devices <= left[name]:
                    yield ConfigurationRow((j,), a, devices, (speed,), own=first)
                    first = False

    def _widths(self, job: Running, name: str) -> list[int]:
        """Powers of two in a server, then whole servers."""
        if job.total_batch:
            return [job.devices]
        application, each = job.application, self.servers.devices[name]
        most = min(WIDEST, application.batch_most // min(application.local_least.values()))
        if self.growth == "doubling" or (self.growth == "first on one" and not job.widest):
            most = min(most, max(2 * job.widest, 1))
        small = [1 << n for n in range(each.bit_length()) if 1 << n <= each]
        large = [each * n for n in range(2, self.servers.count[name] + 1)]
        return [devices for devices in (*small, *large) if devices <= most]


def believed_speed(job: Running, name: str, devices: int, servers: Servers) -> float:
    """Steps per second on so many devices of a type, by what is believed; 0: it cannot run there.

    A job of which nothing is known runs on one device, equally fast on each type. On a type where it did not run
    it is as much faster than on one where it did as a single device is with its memory full; that ratio is true,
    as it is in Sia's simulator, where no profiling is charged.
    """
    application = job.application
    if job.total_batch:
        batch = application.split(name, devices, job.total_batch)
        return _goodput(application.at(job.epoch), name, placed(devices, servers.devices[name]), batch)
    model = job.belief.model()
    if model is None:
        return 1.0 if devices == 1 else 0.0
    known = name if name in model.steps else next(one for one in servers.count if one in model.steps)
    choice = model.best_batch(known, placed(devices, servers.devices[known]), application.batch_most)
    if choice is None or devices * application.local_least[name] > application.batch_most:
        return 0.0
    return choice.goodput / application.batch * (_alone(application, name) / _alone(application, known))


def _goodput(model: JobModel, name: str, placement: tuple[int, ...], batch: tuple[int, int]) -> float:
    return float(model.goodput(name, placement, *batch)) / model.efficiency.batch


def _alone(application: Application, name: str) -> float:
    """Samples per second of one device whose memory is full."""
    local = application.model.local_batch_max[name]
    return float(application.model.throughput(name, (1,), local))
