"""A snapshot: all that a policy may know at one instant.

The mechanism takes it, a policy reads it, and it never changes. Two equal snapshots get the same allocation, so
every decision can be saved, replayed and explained. (`gavelx.files.snapshots` reads and writes it as JSON.)

Legend: J jobs, A accelerator types.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.configuration import ConfigurationSet
from gavelx.configurations import Configurations
from gavelx.fixed import Fixed, fixed_property
from gavelx.job_table import JobTable, column
from gavelx.jobs import Job
from gavelx.memory import Memory
from gavelx.prices import Prices
from gavelx.promises import Promises
from gavelx.throughputs import Throughputs
from gavelx.ways_to_run import ways_to_run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["pairs", "placements", "sizes", "mixes"]
WAITING = -1


@dataclass(frozen=True, eq=False)
class Snapshot(Fixed):
    """Live jobs with their progress, the cluster, the configurations, and the prices.

    * ``known``: every configuration with a known speed; ``opened``: the kinds that a policy may use beyond the
      plain ones (a job alone, consolidated, in its own size): any of ``pairs``, ``placements``, ``sizes``, and
      with those ``mixes``. ``configurations`` holds those that it may use, and every C axis follows it;
    * ``steps_left_J``: optimizer steps still to do; ``elapsed_s_J``: seconds since arrival;
    * ``left_range_JE``: where users did not say how long their jobs are, ``steps_left_J`` is believed
      (:mod:`gavelx.mechanism.lengths`), and these are the lower and the upper end of its interval (J x 2);
      default: none, all are exact;
    * ``usd_per_hour_A``: price of one device, NaN where unknown;
    * ``equal_share_s_J``: seconds that an equal share of the cluster would have taken for the steps done so far
      (with the jobs and devices of that time); default 0;
    * ``spent_usd_J``: dollars that the job has cost so far; ``equal_share_usd_J``: dollars that the same steps
      would have cost with equal shares; default 0; NaN if a price was unknown;
    * ``held_s_J``: seconds for which the job has held its devices so far; default 0 (times the scale factor it is
      the attained service of Tiresias);
    * ``restart_s_J``: seconds that the job loses when it goes over to other devices: to write a checkpoint and
      start again, or to pause where it is resized while it runs; default: NaN, not known;
    * ``promised``: the shares of the previous allocation; default: none;
    * ``running_J``: the accelerator type (an index) that the job holds at this instant, or ``WAITING``; default:
      all jobs wait;
    * ``memory``: what the policy's previous allocation asked to be remembered (:mod:`gavelx.memory`); default:
      nothing, and any policy must do with that;
    * ``scale_factor_J``, ``weight_J``: devices of each job in its own size, and its priority, as in ``jobs``.
    """

    cluster: Cluster
    jobs: Sequence[Job]
    known: Configurations
    steps_left_J: Floats
    elapsed_s_J: Floats
    usd_per_hour_A: Floats
    time_s: float = 0.0
    equal_share_s_J: Floats = field(default_factory=lambda: np.zeros(0))
    spent_usd_J: Floats = field(default_factory=lambda: np.zeros(0))
    equal_share_usd_J: Floats = field(default_factory=lambda: np.zeros(0))
    held_s_J: Floats = field(default_factory=lambda: np.zeros(0))
    running_J: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    restart_s_J: Floats = field(default_factory=lambda: np.zeros(0))
    promised: Promises = field(default_factory=Promises)
    opened: frozenset[Kind] = frozenset()
    left_range_JE: Floats | None = None
    memory: Memory = field(default_factory=dict)
    scale_factor_J: Ints = field(init=False)
    weight_J: Floats = field(init=False)

    def __post_init__(self) -> None:
        J, A = len(self.jobs), len(self.cluster.accelerators)
        told = f"{J} jobs and {A} types, and configurations of {self.known.shape}; of_jobs() leaves jobs out"
        assert self.known.shape == (J, A), told
        assert self.steps_left_J.shape == self.elapsed_s_J.shape == (J,)
        assert self.usd_per_hour_A.shape == (A,)
        if not len(self.running_J):
            object.__setattr__(self, "running_J", np.broadcast_to(WAITING, J))  # takes no room
        if not len(self.restart_s_J):
            object.__setattr__(self, "restart_s_J", np.broadcast_to(np.nan, J))
        for name in ("equal_share_s_J", "spent_usd_J", "equal_share_usd_J", "held_s_J"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.broadcast_to(0.0, J))
        history = (
            self.steps_left_J,
            self.elapsed_s_J,
            self.equal_share_s_J,
            self.spent_usd_J,
            self.equal_share_usd_J,
            self.held_s_J,
        )
        object.__setattr__(self, "scale_factor_J", column(self.jobs, "scale_factor"))
        object.__setattr__(self, "weight_J", column(self.jobs, "weight"))
        for array in (*history, self.running_J, self.restart_s_J, self.scale_factor_J, self.weight_J):
            assert array.shape == (J,), array.shape
            array.setflags(write=False)
        self.usd_per_hour_A.setflags(write=False)
        if self.left_range_JE is not None:
            assert self.left_range_JE.shape == (J, 2), self.left_range_JE.shape
            self.left_range_JE.setflags(write=False)

    @staticmethod
    def of(
        jobs: Sequence[Job],
        cluster: Cluster,
        throughputs: Throughputs,
        prices: Prices | None = None,
        *,
        pairs: bool = False,
        placements: bool = False,
        sizes: bool = False,
        mixes: bool = False,
    ) -> "Snapshot":
        """A snapshot in which all these jobs have just arrived, with the plain configurations or more."""
        opened = {"pairs": pairs, "placements": placements, "sizes": sizes, "mixes": mixes}
        devices_A = cluster.devices_A.tolist()
        return Snapshot(
            cluster=cluster,
            jobs=jobs if isinstance(jobs, JobTable) else tuple(jobs),
            known=ways_to_run(jobs, cluster.accelerators, throughputs, devices_A=devices_A, **opened),
            steps_left_J=column(jobs, "total_steps"),
            elapsed_s_J=np.zeros(len(jobs)),
            usd_per_hour_A=(prices or Prices({})).array(cluster.accelerators),
        )

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self.jobs):,} jobs on {self.cluster} at {self.time_s:,.6g} s>"

    def replace(self, **changes: Any) -> "Snapshot":
        """A snapshot that differs in the fields named."""
        return dataclasses.replace(self, **changes)

    def open(self, kind: Kind) -> "Snapshot":
        """The same snapshot for a policy that may use this kind of configuration as well.

        Raises ValueError for a word that is no kind.
        """
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r:.40} is no kind of configuration; kinds are {', '.join(get_args(Kind))}")
        return self.replace(opened=self.opened | {kind})

    def without_mixes(self) -> "Snapshot":
        """The same instant for a policy that cannot divide devices of several types at once."""
        return self.replace(known=self.known.where(~self.known.mixed_C)) if self.known.has_mixes else self

    def of_jobs(self, job_S: Ints, cluster: Cluster) -> "tuple[Snapshot, Ints]":
        """The snapshot of some of the jobs on other servers, and the indices of its configurations in this one."""
        known, place = self.known.of_jobs(job_S)
        fields = (
            "steps_left_J",
            "elapsed_s_J",
            "equal_share_s_J",
            "spent_usd_J",
            "equal_share_usd_J",
            "held_s_J",
            "running_J",
            "restart_s_J",
        )
        of_job = {name: getattr(self, name)[job_S] for name in fields}
        if self.left_range_JE is not None:
            of_job["left_range_JE"] = self.left_range_JE[job_S]
        jobs = tuple(self.jobs[j] for j in job_S.tolist())
        return self.replace(cluster=cluster, jobs=jobs, known=known, **of_job), place

    def random(self, seed: int) -> np.random.Generator:
        """Chance for a policy: another sequence at each time, and the same for the same snapshot."""
        return np.random.default_rng([seed, int(np.float64(self.time_s).view(np.uint64))])

    @cached_property
    def configurations(self) -> Configurations:
        """The configurations that a policy may use."""
        return self.known if self.open_C.all() else self.known.where(self.open_C)

    def named(self, c_P: Ints) -> ConfigurationSet:
        """Some of these configurations under the ids of the jobs."""
        return self.configurations.named(self.id_J, c_P)

    @fixed_property
    def id_J(self) -> Ints:
        """The ids of the jobs."""
        return column(self.jobs, "id")

    @fixed_property
    def open_C(self) -> NDArray[np.bool_]:
        """Whether a policy may use each of the known configurations."""
        use_C = np.ones(len(self.known), dtype=bool)
        if "pairs" not in self.opened and len(self.known.job_M) > len(self.known):
            use_C &= self.known.members_C == 1
        if "placements" not in self.opened:
            use_C &= ~self.known.spread_C
        if "sizes" not in self.opened:
            use_C &= self.known.own_C
        if "mixes" not in self.opened:
            use_C &= ~self.known.mixed_C
        return use_C

    @property
    def accelerators(self) -> tuple[str, ...]:
        return self.cluster.accelerators

    @property
    def devices_A(self) -> NDArray[np.int64]:
        return self.cluster.devices_A

    @fixed_property
    def usable_C(self) -> NDArray[np.bool_]:
        """Whether a configuration can ever run here: its members make progress and its devices exist."""
        return self.configurations.runnable_C & self.fits_C

    @fixed_property
    def runs_J(self) -> NDArray[np.bool_]:
        """Whether each job can run here at all, alone or beside another."""
        table = self.configurations
        if table.first_J is not None and self.usable_C.all():
            return np.asarray(np.diff(table.first_J) > 0)
        runs_J = np.zeros(len(self.jobs), dtype=bool)
        runs_J[table.job_M[self.usable_C[table.configuration_M]]] = True
        return runs_J

    @fixed_property
    def fits_C(self) -> NDArray[np.bool_]:
        """Whether the cluster has the devices that a configuration needs.

        Then there are also servers for a consolidated gang: it is on the fewest that can hold it
        (:func:`gavelx.cluster.fewest_servers`).
        """
        table = self.configurations
        fewest = int(self.devices_A.min()) if len(self.devices_A) else 0
        if table.devices_C.max(initial=0) <= fewest and not table.has_mixes:
            return np.ones(len(table), dtype=bool)
        return np.asarray(table.fit_C(self.devices_A))
