"""Gavel as Sia's simulator has it: raw updates/s summed, and its rounds.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.sia.placing import Stays
from experiments.sia.rounds import Batch, Place, Running, Servers
from gavelx.cluster import Cluster, Server
from gavelx.configurations import Configurations
from gavelx.estimator.model_table import placed
from gavelx.jobs import Job
from gavelx.policies import MaxSumThroughput
from gavelx.published.solver.interior import solve_interior
from gavelx.snapshot import Snapshot
from gavelx.solvers import using

DECIMALS = 5
"""Shares are rounded to so many, so that traces left by the interior point are none."""


class Gavel:
    """The largest sum of raw updates/s; the priority of a job on a type is its share over its part of the time.

    The part is that of all rounds given there, to jobs that are done too; each job begins with half a round on
    each type. Jobs without a share fill what is left, type by type, in order of arrival.
    """

    def __init__(self, servers: Servers, round_s: float) -> None:
        self.servers, self.round_s = servers, round_s
        self.stays = Stays(servers)
        self.had_s: dict[tuple[str, str], float] = {}
        self.all_s = dict.fromkeys(servers.count, 0.0)

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]:
        names = list(self.servers.count)
        for job in jobs:
            for name in names:
                if (job.name, name) not in self.had_s:
                    self._had(job.name, name, self.round_s / 2)
        share_JA = self._shares(jobs)
        order = sorted(
            ((j, a) for a in range(len(names)) for j in range(len(jobs))),
            key=lambda ja: (self._priority(jobs[ja[0]].name, names[ja[1]], share_JA[ja]), share_JA[ja]),
            reverse=True,
        )
        free, wanted = {name: self.servers.total(name) for name in names}, dict[str, tuple[str, int]]()
        for j, a in order:
            job, name = jobs[j], names[a]
            if job.name not in wanted and job.devices <= free[name]:
                wanted[job.name] = name, job.devices
                free[name] -= job.devices
                self._had(job.name, name, self.round_s)
        return self.stays.place(wanted)

    def _had(self, job: str, name: str, seconds: float) -> None:
        self.had_s[job, name] = self.had_s.get((job, name), 0.0) + seconds
        self.all_s[name] += seconds

    def _priority(self, job: str, name: str, share: float) -> float:
        return share * self.all_s[name] / self.had_s[job, name]

    def _shares(self, jobs: Sequence[Running]) -> np.ndarray:
        names, J = tuple(self.servers.count), len(jobs)
        servers = [
            Server(n, name, self.servers.devices[name])
            for n, name in enumerate(name for name in names for _ in range(self.servers.count[name]))
        ]
        speed_JA = np.array([[self._updates_per_s(job, name) for name in names] for job in jobs])
        snapshot = Snapshot(
            cluster=Cluster(tuple(servers), names),
            jobs=tuple(
                Job(j, job.name, 1e9, scale_factor=job.devices, arrival_s=job.arrival_s)
                for j, job in enumerate(jobs)
            ),
            known=Configurations.of_matrix(speed_JA, np.array([job.devices for job in jobs], dtype=np.int64)),
            steps_left_J=np.full(J, 1e9),
            elapsed_s_J=np.zeros(J),
            usd_per_hour_A=np.full(len(names), np.nan),
        )
        with using(first=solve_interior):
            allocation = MaxSumThroughput().allocate(snapshot)
        return allocation.share_JA.round(DECIMALS)

    def _updates_per_s(self, job: Running, name: str) -> float:
        """As Gavel is told: a job of one device is taken to accumulate, whatever it does."""
        batch = job.application.split(name, job.devices, job.total_batch)
        if job.devices == 1 and not batch.accumulated:
            batch = Batch(-(-job.total_batch // 2), 1)
        model, placement = job.application.model, placed(job.devices, self.servers.devices[name])
        return 1.0 / float(model.step_seconds(name, placement, *batch))
