"""The sizes with which the jobs that run are soonest done with their devices: ONES, by a program or by evolution.

Legend: J jobs, V choices (a configuration of one job), K genomes.
"""

from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.memory import Memory
from gavelx.policies.base import Policy
from gavelx.policies.choices import Choices
from gavelx.policies.evolution import NONE, Evolution
from gavelx.policies.greedy import by_arrival
from gavelx.policies.size_limits import UNKNOWN, Limits, remembered_rows
from gavelx.snapshot import WAITING, Kind, Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Search = Literal["exact", "evolution"]
Left = Literal["mean", "draw"]
HOUR_S, SOON_S = 3600.0, 1.0
"""Device-hours are counted. A job that is complete sooner than ``SOON_S`` counts as one that takes so long."""
GENES = ("gene_type", "gene_devices", "gene_batch")
DONE_RANGE = 0.005, 0.999
"""Of a drawn part of a job that is done."""
GENE_BYTES, GENES_MOST = 7, 900_000
"""Of a job in a genome, and of the population that is remembered."""


class Ones(Policy):
    """Give each job the size, or none, so that those that run need the fewest devices for the shortest time: ONES.

    Minimise ``sum_j c_j t_j`` over the jobs that run: c_j devices for t_j hours, what is left of the job in
    that size. The cluster is as full as can be: as printed (equation 2) the score of an empty cluster is 0, the
    best there is. Each job that was never trained gets a size while there are devices. `Limits` says how many
    devices a job may have by now.

    This is the repaired and exact form: the score is a sum of one cost for each job, so an integer program finds
    the best answer in milliseconds, where the paper evolves a population (``search="evolution"``: the best of it,
    by numbers of generations and not of seconds, so that the answer is always the same). A job may have any size
    at once, limits never fall, and a change of size costs ``restart_s`` of all its devices.
    `OnesPublished` has the rules of the paper. `SrtfProgram` has the better score.

    ``left="draw"`` draws how long each job takes from a Beta distribution whose mean is what is believed (section
    3.2.1); ``mean`` takes the mean, which preempts less. What is believed is the scheduler's, for all policies.

    Source: ONES (SC'21), sections 3.2 and 3.3. Not kept: genes are sizes and not devices, as the score depends on
    sizes alone and the mechanism places jobs with the fewest moves, so reordering is not needed; epochs are
    ``limits.epoch_s`` of training, as a scheduler does not know a job's own; decisions come with arrivals, ends
    and every ``interval_s``, not when every job has ended an epoch; efficiency of large batches is in the speeds.
    """

    name = "ones"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes"})

    def __init__(
        self,
        search: Search = "exact",
        left: Left = "mean",
        limits: Limits | None = None,
        *,
        restart_s: float = 30.0,
        interval_s: float = 60.0,
        population: int = 64,
        generations: int = 20,
        seed: int = 1,
    ) -> None:
        if search not in ("exact", "evolution") or left not in ("mean", "draw"):
            raise PolicyError(
                f"search={search!r}, left={left!r}",
                where="Ones(...)",
                expected="search 'exact' or 'evolution', left 'mean' or 'draw'",
            )
        if not (restart_s >= 0.0 and interval_s > 0.0 and population >= 2 and generations >= 0 and seed >= 0):
            raise PolicyError(
                f"restart_s={restart_s:g}, interval_s={interval_s:g}, population={population}, "
                f"generations={generations}, seed={seed}",
                where="Ones(...)",
                expected="restart_s, generations, seed not below 0, interval_s above 0, population not below 2",
            )
        self.search, self.left, self.limits = search, left, limits or Limits()
        self.restart_s, self.interval_s = restart_s, interval_s
        self.population, self.generations, self.seed = population, generations, seed

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        choices, most_J, epochs_J = self._within_limits(snapshot)
        cost_V, must_V = self.cost_V(choices), served_first_V(choices)
        execution = Execution(refresh_s=self.interval_s, whole_devices=True)
        memory: Memory = {}
        if self.search == "exact" or not len(choices.job_V):
            allocation = choices.fullest(cost_V, choices.job_V[must_V], execution, begin_s)
        else:
            allocation, memory = self._evolved(choices, cost_V, must_V, execution, begin_s)
        gets_J = np.asarray(allocation.share_JA.any(axis=1))
        return allocation.with_memory({**memory, **self.limits.to_remember(snapshot, most_J, epochs_J, gets_J)})

    def _within_limits(self, snapshot: Snapshot) -> tuple[Choices, Ints, Ints]:
        """The sizes that jobs may have by now, their limits, and the epochs that each was trained for."""
        choices, J = Choices.of(snapshot), len(snapshot.jobs)
        cap_J = np.ones(J, dtype=np.int64)
        np.maximum.at(cap_J, choices.job_V, choices.devices_V)
        least_J, now_J = cap_J.copy(), choices.devices_now_J(choices.now_V())
        np.minimum.at(least_J, choices.job_V, choices.devices_V)
        most_J, epochs_J = self.limits.most_J(snapshot, least_J, cap_J, now_J)
        return choices.take(choices.devices_V <= most_J[choices.job_V]), most_J, epochs_J

    def cost_V(self, choices: Choices) -> Floats:
        """Device-hours that each size needs beyond what it costs to let its job wait."""
        snapshot = choices.snapshot
        left_V = (snapshot.steps_left_J * self._drawn_J(choices))[choices.job_V]
        time_s_V = np.maximum(left_V / choices.speed_V, SOON_S)
        now_V = choices.now_V()
        begun_V = snapshot.held_s_J[choices.job_V] > 0.0
        time_s_V[begun_V & ~now_V] += self.restart_s
        waits_s_V = self.restart_s * choices.devices_now_J(now_V)[choices.job_V]  # it would have to start again
        return np.asarray((choices.devices_V * time_s_V - waits_s_V) / HOUR_S)

    def _drawn_J(self, choices: Choices) -> Floats:
        """What is left of each job by a draw, over what is believed."""
        snapshot, J = choices.snapshot, len(choices.snapshot.jobs)
        if self.left == "mean":
            return np.ones(J)
        best_J, order = np.full(J, np.inf), by_arrival(snapshot)
        np.minimum.at(best_J, choices.job_V, snapshot.steps_left_J[choices.job_V] / choices.speed_V)
        left_s_J = np.maximum(np.where(np.isfinite(best_J), best_J, SOON_S), SOON_S)
        done_s_J = np.maximum(snapshot.held_s_J, self.limits.epoch_s)
        epochs_J = done_s_J / self.limits.epoch_s
        beta_J = np.maximum(epochs_J * left_s_J / done_s_J, 1.0)
        done_J = np.empty(J)
        done_J[order] = snapshot.random(self.seed).beta(epochs_J[order], beta_J[order])
        return np.asarray(done_s_J * (1.0 / np.clip(done_J, *DONE_RANGE) - 1.0) / left_s_J)

    def _evolved(
        self, choices: Choices, cost_V: Floats, must_V: Bools, execution: Execution, begin_s: float
    ) -> tuple[Allocation, Memory]:
        """The best of the population, which is remembered."""
        snapshot = choices.snapshot
        keep_V = choices.cheapest_V(np.where(must_V, -np.inf, cost_V))
        choices, cost_V, must_V = choices.take(keep_V), cost_V[keep_V], must_V[keep_V]
        evolution = Evolution.of(choices, cost_V, must_V, snapshot.held_s_J)
        random = snapshot.random(self.seed)
        population_KJ = evolution.run(self._ancestors_KJ(choices), self.population, self.generations, random)
        best_J = population_KJ[0]
        chosen_V = np.zeros(len(cost_V), dtype=bool)
        chosen_V[best_J[best_J != NONE]] = True
        allocation = choices.allocation(
            chosen_V,
            execution,
            path=f"{self.generations} generations of {self.population}",
            seconds=perf_counter() - begin_s,
            objective=-float(evolution.cost_K(population_KJ[:1])[0]),
        )
        return allocation, _genes(choices, population_KJ)

    def _ancestors_KJ(self, choices: Choices) -> Ints:
        """What runs now, and the population of before, in the sizes that there are today."""
        J, now_V = len(choices.snapshot.jobs), choices.now_V()
        now_J = np.full(J, NONE)
        now_J[choices.job_V[now_V]] = np.flatnonzero(now_V)
        memory = choices.snapshot.memory
        genes = [memory[name] for name in GENES if name in memory]
        row_J = remembered_rows(choices.snapshot)
        if len({one.shape for one in genes}) != 1 or len(genes) < len(GENES) or genes[0].ndim != 2:
            return now_J[None, :]
        if genes[0].shape[1] <= row_J.max(initial=0):
            return now_J[None, :]
        there_V = {key: v for v, key in enumerate(choices.sizes())}
        genes_KJ = [one[: self.population - 1, row_J].tolist() for one in genes]
        then_KJ = [
            [there_V.get((j, *gene), NONE) if known else NONE for j, (known, *gene) in enumerate(row)]
            for row in (
                zip((row_J != UNKNOWN).tolist(), *genes, strict=True) for genes in zip(*genes_KJ, strict=True)
            )
        ]
        return np.array([now_J.tolist(), *then_KJ], dtype=np.int64)


class OnesPublished(Ones):
    """ONES by the rules of its paper: evolution, one device in the first epoch, doubling, halving, a Beta draw.

    The limit of the job that holds at least half of the devices falls while others wait, as in the published code;
    ``Limits(down="paper")`` is the printed formula, with which no limit ever rises. Changes of size cost nothing
    in the score. ONES (SC'21), sections 3.2 and 3.3.
    """

    name = "ones_published"

    def __init__(self, limits: Limits | None = None, seed: int = 1) -> None:
        limits = limits or Limits(start=True, up="double", down="largest", halve=True)
        super().__init__("evolution", "draw", limits, restart_s=0.0, seed=seed)


def served_first_V(choices: Choices) -> Bools:
    """A size for each job that was never trained, while there is room: such jobs get one in any case.

    It is the smallest that fits, in order of arrival, so there is a way to serve all of them at once.
    """
    snapshot = choices.snapshot
    free_A, must_V = snapshot.devices_A.copy(), np.zeros(len(choices.job_V), dtype=bool)
    new_J, done = (snapshot.held_s_J == 0.0) & (snapshot.running_J == WAITING), set[int]()
    for v in np.lexsort((choices.devices_V, choices.rank_V)).tolist():
        j, a, devices = int(choices.job_V[v]), choices.type_V[v], choices.devices_V[v]
        if new_J[j] and j not in done and devices <= free_A[a]:
            must_V[v], free_A[a] = True, free_A[a] - devices
            done.add(j)
    return must_V


def _genes(choices: Choices, population_KJ: Ints) -> Memory:
    """The population as plain arrays: type, devices and batch of each job, 0 devices for none."""
    most = max(1, GENES_MOST // (GENE_BYTES * max(1, population_KJ.shape[1])))
    genome_KJ = population_KJ[:most]
    batch_V = choices.snapshot.configurations.batch_C[choices.configuration_V]
    kinds = ("i1", "i2", "i4")
    columns = (choices.type_V, choices.devices_V, batch_V)
    return {
        name: np.where(genome_KJ == NONE, 0, np.append(column, 0)[genome_KJ]).astype(kind)
        for name, column, kind in zip(GENES, columns, kinds, strict=True)
    }
