"""A task: jobs with deadlines and the offers to buy for them, as a program and as a simulation.

Legend: J jobs, O offers (each is a pool of devices).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gavelx.asking import Allocator
from gavelx.cluster import Cluster, Server
from gavelx.job_table import column
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.prices import Prices
from gavelx.pricing.offers import Offer
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.solvers.planning.fluid import Demand, Fluid
from gavelx.solvers.planning.purchase import Purchase
from gavelx.throughputs import Setting, Throughputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
INTERVALS = 48
"""The most intervals of the program; more take longer and make it more exact."""


@dataclass(frozen=True)
class Task:
    """Jobs with deadlines, and the offers to buy for them: at most ``most`` devices of a type."""

    jobs: Sequence[Job]
    throughputs: Throughputs
    offers: Sequence[Offer]
    most: Mapping[str, int]

    @cached_property
    def throughput_JO(self) -> Floats:
        """Steps/s of each job on each kind of instance; 0 if it cannot run or its speed is unknown."""
        return np.column_stack([self._speeds(offer) for offer in self.offers])

    def _speeds(self, offer: Offer) -> Floats:
        together, apart = (
            self.throughputs.matrix(self.jobs, [offer.accelerator], whole)[:, 0] for whole in (True, False)
        )
        fits_J = self.scale_J <= offer.devices
        return np.nan_to_num(np.where(fits_J | np.isnan(apart), together, apart))

    @cached_property
    def scale_J(self) -> Floats:
        return column(self.jobs, "scale_factor").astype(float)

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(offer.accelerator for offer in self.offers))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each kind of instance, which is an accelerator type in the simulation."""
        texts = [str(offer).lower() for offer in self.offers]
        return tuple(text if texts.count(text) == 1 else f"{text}#{o}" for o, text in enumerate(texts))

    @property
    def start_s(self) -> float:
        return min(job.arrival_s for job in self.jobs)

    @property
    def hours(self) -> float:
        """From the first arrival to the last deadline."""
        return (max(due_s(job) for job in self.jobs) - self.start_s) / 3600.0

    def purchase(self) -> Purchase:
        """The program that buys for this task."""
        demand = Demand(
            release_s_J=column(self.jobs, "arrival_s"),
            due_s_J=np.array([due_s(job) for job in self.jobs]),
            steps_J=column(self.jobs, "total_steps"),
            scale_J=self.scale_J,
            throughput_JP=self.throughput_JO,
        )
        types_O = np.array([offer.accelerator for offer in self.offers])
        return Purchase(
            fluid=Fluid(demand, demand.edges(INTERVALS)),
            size_P=np.array([offer.devices for offer in self.offers]),
            usd_P=np.array([offer.usd_per_hour for offer in self.offers]),
            group_GP=np.array([types_O == name for name in self.accelerators]),
            limit_G=np.array([float(self.most.get(name, np.inf)) for name in self.accelerators]),
        )

    def simulated(self, instances_O: Ints, policy: Allocator, rules: Rules) -> Result:
        """Simulate this cluster, with each kind of instance as an accelerator type of its own."""
        held = [o for o in range(len(self.offers)) if instances_O[o]]
        kinds = [o for o in held for _ in range(int(instances_O[o]))]
        servers = tuple(
            Server(n, self.names[o], self.offers[o].devices, self.offers[o].region, self.offers[o].instance_type)
            for n, o in enumerate(kinds)
        )
        names = tuple(self.names[o] for o in held)
        speeds: dict[Setting, float] = {}
        for j, job in enumerate(self.jobs):
            for o in held:
                speed, offer = float(self.throughput_JO[j, o]), self.offers[o]
                apart = self.throughputs.get(job.job_type, offer.accelerator, job.scale_factor, False)
                fits = job.scale_factor <= offer.devices
                speeds[Setting(job.job_type, self.names[o], job.scale_factor)] = speed
                speeds[Setting(job.job_type, self.names[o], job.scale_factor, False)] = (
                    apart if fits and apart is not None else speed
                )
        usd = {self.names[o]: self.offers[o].usd_per_hour / self.offers[o].devices for o in held}
        return simulate(policy, self.jobs, Cluster(servers, names), Throughputs(speeds), Prices(usd), rules=rules)


def due_s(job: Job) -> float:
    """The job's deadline in seconds; every job of a task has one."""
    assert job.deadline_s is not None, job
    return job.deadline_s
