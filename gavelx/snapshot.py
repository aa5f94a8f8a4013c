"""A snapshot: all that a policy may know at one instant.

The mechanism takes it, a policy reads it, nobody changes it. Two equal snapshots get the same allocation, so
every decision can be saved, replayed and explained. (`gavelx.files.snapshots` reads and writes it as JSON.)

Legend: J jobs, A accelerator types.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.throughputs import Throughputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WAITING = -1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Live jobs, the cluster, how the jobs may run, how far they are, and what devices cost.

    * ``steps_left_J``: optimizer steps still to do; ``elapsed_s_J``: seconds since arrival;
    * ``usd_per_hour_A``: price of one device, NaN where unknown;
    * ``equal_share_s_J``: seconds that an equal share of the cluster would have taken for the steps done so far
      (with the number of jobs and devices that there were); left out, 0;
    * ``running_J``: the accelerator type (an index) that the job holds at this instant, or ``WAITING``; left out,
      all jobs wait.
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    configurations: Configurations
    steps_left_J: Floats
    elapsed_s_J: Floats
    usd_per_hour_A: Floats
    time_s: float = 0.0
    equal_share_s_J: Floats = field(default_factory=lambda: np.zeros(0))
    running_J: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        J, A = len(self.jobs), len(self.cluster.accelerators)
        assert self.configurations.shape == (J, A), (self.configurations.shape, J, A)
        assert self.steps_left_J.shape == self.elapsed_s_J.shape == (J,)
        assert self.usd_per_hour_A.shape == (A,)
        if not len(self.running_J):
            object.__setattr__(self, "running_J", np.full(J, WAITING))
        if not len(self.equal_share_s_J):
            object.__setattr__(self, "equal_share_s_J", np.zeros(J))
        assert self.running_J.shape == self.equal_share_s_J.shape == (J,)
        history = (self.steps_left_J, self.elapsed_s_J, self.equal_share_s_J)
        for array in (*history, self.usd_per_hour_A, self.running_J):
            array.setflags(write=False)

    @staticmethod
    def of(
        jobs: Sequence[Job],
        cluster: Cluster,
        throughputs: Throughputs,
        prices: Prices | None = None,
    ) -> "Snapshot":
        """The instant at which all these jobs have just arrived."""
        T_JA = throughputs.matrix(jobs, cluster.accelerators)
        scale_J = np.array([job.scale_factor for job in jobs], dtype=np.int64)
        return Snapshot(
            cluster=cluster,
            jobs=tuple(jobs),
            configurations=Configurations.of_matrix(T_JA, scale_J),
            steps_left_J=np.array([job.total_steps for job in jobs], dtype=float),
            elapsed_s_J=np.zeros(len(jobs)),
            usd_per_hour_A=(prices or Prices({})).array(cluster.accelerators),
        )

    def replace(self, **changes: Any) -> "Snapshot":
        """A snapshot that differs in the fields named."""
        return dataclasses.replace(self, **changes)

    def alone(self) -> "Snapshot":
        """The same instant without space sharing: only configurations of one job."""
        alone_C = self.configurations.members_C == 1
        if alone_C.all():
            return self
        return self.replace(configurations=self.configurations.where(alone_C))

    @property
    def accelerators(self) -> tuple[str, ...]:
        return self.cluster.accelerators

    @property
    def devices_A(self) -> NDArray[np.int64]:
        return self.cluster.devices_A

    @cached_property
    def usable_C(self) -> NDArray[np.bool_]:
        """Whether a configuration can ever run here: its members make progress and its devices exist."""
        table = self.configurations
        return table.runnable_C & (table.devices_C <= self.devices_A[table.accelerator_C])

    @cached_property
    def scale_factor_J(self) -> NDArray[np.int64]:
        """Devices that each job needs at once."""
        return np.array([job.scale_factor for job in self.jobs], dtype=np.int64)

    @cached_property
    def weight_J(self) -> Floats:
        """Priority weight of each job."""
        return np.array([job.weight for job in self.jobs], dtype=float)
