"""Work over time as a fluid: jobs with arrivals and deadlines on pools of identical devices, interval by interval.

Between two neighbouring events (an arrival, a deadline) nothing changes that a schedule must know, so it is enough
to say for which part of each interval every job holds its devices in every pool::

    sum_p x_jpk <= window_jk             job j is in one pool at a time, and only between arrival and deadline
    sum_j s_j x_jpk <= devices_p         pool p is not oversubscribed
    sum_pk T_jp length_k x_jpk >= steps_j

Where every job needs one device, shares that satisfy this can be carried out by a schedule with preemption in
each interval, so with all events as edges the program is exact (Lawler and Labetoulle, "On preemptive scheduling
of unrelated parallel processors by linear programming", JACM 25(4), 1978). For gangs it is a relaxation: three
devices are one and a half gangs of two. So it is where intervals hold further events (``edges`` with a limit).

Legend: J jobs, P pools, K intervals, E entries (a job in a pool in an interval), R pairs of job and interval.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_TIME = 1e-9
"""The part of an interval in which an entry does what is too little to count; less is beyond a solver's digits."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What is to be done: steps of each job, on so many devices at once, between two times.

    ``throughput_JP`` is the speed (steps/s) of each job in each pool, 0 where it cannot run.
    """

    release_s_J: Floats
    due_s_J: Floats
    steps_J: Floats
    scale_J: Floats
    throughput_JP: Floats

    def most_done_J(self) -> Floats:
        """The part of its steps that each job can have done by its deadline, all the time where it is fastest."""
        fastest_J = self.throughput_JP.max(axis=1, initial=0.0)
        return np.asarray(fastest_J * (self.due_s_J - self.release_s_J) / self.steps_J)

    def edges(self, most: int) -> Floats:
        """The times of all events, which are the edges of the intervals; so many intervals at most."""
        events_s = np.unique(np.concatenate([self.release_s_J, self.due_s_J]))
        if len(events_s) <= most + 1:
            return events_s
        return np.unique(np.quantile(events_s, np.linspace(0.0, 1.0, most + 1), method="nearest"))


class Fluid:
    """The rows of the program above for a demand, between these edges; variables are the entries x_E in [0, 1]."""

    def __init__(self, demand: Demand, edge_s: Floats) -> None:
        self.demand, self.edge_s, self.length_s_K = demand, edge_s, np.diff(edge_s)
        J, P = demand.throughput_JP.shape
        start_JK = np.maximum(demand.release_s_J[:, None], edge_s[:-1])
        window_s_JK = np.minimum(demand.due_s_J[:, None], edge_s[1:]) - start_JK
        job_R, interval_R = np.nonzero(window_s_JK > 0)
        self.window_R = window_s_JK[job_R, interval_R] / self.length_s_K[interval_R]
        row_E, self.pool_E = np.nonzero(demand.throughput_JP[job_R] > 0)
        self.row_E, self.job_E, self.interval_E = row_E, job_R[row_E], interval_R[row_E]
        self.P, self.J = P, J

    @property
    def E(self) -> int:
        return len(self.row_E)

    @property
    def K(self) -> int:
        return len(self.length_s_K)

    @cached_property
    def time_RE(self) -> sparse.csr_array:
        """Which entries take of the time of a job in an interval, at most ``window_R``."""
        return self._rows(self.row_E, np.ones(self.E), len(self.window_R))

    @cached_property
    def devices_QE(self) -> sparse.csr_array:
        """Devices in use in each pool and interval (row p K + k)."""
        devices_E = self.demand.scale_J[self.job_E]
        return self._rows(self.pool_E * self.K + self.interval_E, devices_E, self.P * self.K)

    @cached_property
    def done_E(self) -> Floats:
        """The part of its job's steps that an entry does when it is 1."""
        most_E = self.demand.throughput_JP[self.job_E, self.pool_E] * self.length_s_K[self.interval_E]
        return np.asarray(most_E / np.maximum(self.demand.steps_J[self.job_E], NO_TIME * most_E))

    @cached_property
    def done_JE(self) -> sparse.csr_array:
        """The part of each job's steps that is done."""
        return self._rows(self.job_E, self.done_E, self.J)

    def _rows(self, row_E: Ints, value_E: Floats, rows: int) -> sparse.csr_array:
        return sparse.csr_array((value_E, (row_E, np.arange(self.E))), shape=(rows, self.E))
