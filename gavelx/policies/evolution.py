"""Evolution of sizes: a population of ways to give each job one size or none, better with every generation.

A genome says which size each job has; which devices it gets is the mechanism's business, which packs gangs and
moves as few as it can. Every genome is feasible, gives a size to each job that must have one, and leaves no device
idle on which a job could start or grow.

Legend: J jobs, A accelerator types, V choices (a size of one job), K genomes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.policies.choices import Choices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NONE = -1
LEAST = 1e-9
"""What a step costs at least where devices are dealt by chance."""
FORGET = 0.3
"""The chance that a job of a mutant begins anew: theta of ONES (SC'21), as its artifact has it."""


@dataclass(frozen=True, eq=False)
class Evolution:
    """What can be chosen, what each choice costs, and who must have a size.

    ``must_J`` are jobs that have a size in every genome; ``size_J`` is a size for each of them that fits beside
    the others' (`NONE` for the other jobs). ``first_JA`` is the smallest size of a job on a type, ``next_V`` the
    next larger one on the same type (`NONE` where there is none); ``cost_V``, ``devices_V`` and ``type_V`` have
    one entry more, for `NONE`. ``step_V`` is what each device costs by which a size is larger than the next
    smaller one. ``held_s_J`` says from whom devices are taken first for a job that must have some.
    """

    cost_V: Floats
    devices_V: Ints
    type_V: Ints
    first_JA: Ints
    next_V: Ints
    devices_A: Ints
    size_J: Ints
    step_V: Floats
    held_s_J: Floats

    @staticmethod
    def of(choices: Choices, cost_V: Floats, must_V: Bools, held_s_J: Floats) -> "Evolution":
        """From choices that are in order of job, type, devices, the cheapest of each number of devices."""
        J, A, V = len(choices.snapshot.jobs), len(choices.snapshot.accelerators), len(choices.job_V)
        first_JA, next_V = np.full((J, A), NONE), np.full(V + 1, NONE)
        where = choices.job_V * A + choices.type_V
        size_J = np.full(J, NONE)
        size_J[choices.job_V[must_V]] = np.flatnonzero(must_V)
        begins_V = np.diff(where, prepend=NONE) != 0
        first_JA.flat[where[begins_V]] = np.flatnonzero(begins_V)
        next_V[np.flatnonzero(~begins_V) - 1] = np.flatnonzero(~begins_V)
        more_V = np.where(begins_V, choices.devices_V, np.diff(choices.devices_V, prepend=0))
        step_V = np.where(begins_V, cost_V, np.diff(cost_V, prepend=0.0)) / np.maximum(more_V, 1)
        return Evolution(
            cost_V=np.append(cost_V, 0.0),
            devices_V=np.append(choices.devices_V, 0),
            type_V=np.append(choices.type_V, NONE),
            first_JA=first_JA,
            next_V=next_V,
            devices_A=choices.snapshot.devices_A.astype(np.int64),
            size_J=size_J,
            step_V=np.append(np.maximum(step_V, LEAST), 0.0),
            held_s_J=held_s_J,
        )

    @property
    def must_J(self) -> Bools:
        return np.asarray(self.size_J != NONE)

    def run(self, ancestors_KJ: Ints, size: int, generations: int, random: np.random.Generator) -> Ints:
        """The population after so many generations, best first: ``size`` genomes in rows.

        ``ancestors_KJ`` are of before, feasible or not; they are repaired, and others are drawn beside them.
        """
        drawn = np.full((max(0, size - len(ancestors_KJ)), len(self.must_J)), NONE)
        population_KJ = self._best(self._mended(np.concatenate([ancestors_KJ, drawn]), random), size)
        for _ in range(generations):
            children_KJ = self._mended(self._offspring(population_KJ, random), random)
            population_KJ = self._best(np.concatenate([population_KJ, children_KJ]), size)
        return population_KJ

    def cost_K(self, genome_KJ: Ints) -> Floats:
        """What each genome costs."""
        return np.asarray(self.cost_V[genome_KJ].sum(axis=1))

    def _best(self, genome_KJ: Ints, size: int) -> Ints:
        return genome_KJ[np.argsort(self.cost_K(genome_KJ), kind="stable")[:size]]

    def _offspring(self, parent_KJ: Ints, random: np.random.Generator) -> Ints:
        """Two children of each of K pairs, by uniform crossover, and K mutants."""
        K, J = parent_KJ.shape
        one_KJ, other_KJ = parent_KJ[random.integers(K, size=K)], parent_KJ[random.integers(K, size=K)]
        swap_KJ = random.random((K, J)) < 0.5
        mutant_KJ = parent_KJ[random.integers(K, size=K)]
        forgets_KJ = random.random((K, J)) < FORGET
        return np.concatenate(
            [
                np.where(swap_KJ, one_KJ, other_KJ),
                np.where(swap_KJ, other_KJ, one_KJ),
                np.where(forgets_KJ, self.size_J, mutant_KJ),
            ]
        )

    def _mended(self, genome_KJ: Ints, random: np.random.Generator) -> Ints:
        """Feasible genomes near these, with those who must have a size, and no device idle that could be used."""
        genome_KJ = self._within(genome_KJ, random)
        for j in np.flatnonzero(self.must_J):
            self._force(genome_KJ, int(j))
        lacks_K = (genome_KJ[:, self.must_J] == NONE).any(axis=1)
        genome_KJ[lacks_K] = self.size_J
        return self._filled(genome_KJ, random)

    def _within(self, genome_KJ: Ints, random: np.random.Generator) -> Ints:
        """Jobs lose their sizes, in an order that is drawn, until the devices are enough; those who must, last."""
        turn_KJ = random.random(genome_KJ.shape) - self.must_J
        order_KJ = np.argsort(turn_KJ, axis=1, kind="stable")
        genes_KJ = np.take_along_axis(genome_KJ, order_KJ, axis=1)
        keep_KJ = np.ones(genes_KJ.shape, dtype=bool)
        for a, devices in enumerate(self.devices_A.tolist()):
            need_KJ = np.where(self.type_V[genes_KJ] == a, self.devices_V[genes_KJ], 0)
            keep_KJ &= (need_KJ == 0) | (np.cumsum(need_KJ, axis=1) <= devices)
        np.put_along_axis(genome_KJ := genome_KJ.copy(), order_KJ, np.where(keep_KJ, genes_KJ, NONE), axis=1)
        return genome_KJ

    def _free_KA(self, genome_KJ: Ints) -> Ints:
        """Devices of each type that each genome leaves idle."""
        K, A = len(genome_KJ), len(self.devices_A)
        cell_KJ = self.type_V[genome_KJ] + (A + 1) * np.arange(K)[:, None] + 1  # the first column is for NONE
        used = np.bincount(cell_KJ.ravel(), self.devices_V[genome_KJ].ravel(), K * (A + 1))
        return np.asarray(self.devices_A - used.reshape(K, A + 1)[:, 1:].astype(np.int64))

    def _force(self, genome_KJ: Ints, j: int) -> None:
        """Give job j its smallest size where it has none; who held devices longest loses its own for it."""
        rows = np.flatnonzero(genome_KJ[:, j] == NONE)
        if not len(rows):
            return
        part_KJ = genome_KJ[rows]
        first_A = self.first_JA[j]
        need_A = np.where(first_A == NONE, np.iinfo(np.int64).max // 2, self.devices_V[first_A])
        short_KA = np.maximum(0, need_A - self._free_KA(part_KJ))
        takes_KA = (self.type_V[part_KJ][:, :, None] == np.arange(len(need_A))) & ~self.must_J[:, None]
        there_KA = (takes_KA * self.devices_V[part_KJ][:, :, None]).sum(axis=1)
        short_KA = np.where(there_KA < short_KA, np.iinfo(np.int64).max // 2, short_KA)
        type_K = np.argmin(short_KA, axis=1)
        short_K = np.take_along_axis(short_KA, type_K[:, None], axis=1)[:, 0]
        order = np.argsort(-self.held_s_J, kind="stable")
        mine_KJ = (self.type_V[part_KJ] == type_K[:, None]) & ~self.must_J
        held_KJ = np.where(mine_KJ, self.devices_V[part_KJ], 0)[:, order]
        loses_KJ = (held_KJ > 0) & (np.cumsum(held_KJ, axis=1) - held_KJ < short_K[:, None])
        fits_K = short_K < np.iinfo(np.int64).max // 2
        ordered_KJ = part_KJ[:, order]
        part_KJ[:, order] = np.where(loses_KJ & fits_K[:, None], NONE, ordered_KJ)
        part_KJ[:, j] = np.where(fits_K, first_A[type_K], NONE)
        genome_KJ[rows] = part_KJ

    def _filled(self, genome_KJ: Ints, random: np.random.Generator) -> Ints:
        """Idle devices go to jobs that can start or grow on them, the likelier the less such a step costs."""
        free_KA, draw_KJ = self._free_KA(genome_KJ), random.exponential(size=genome_KJ.shape)
        rows = np.arange(len(genome_KJ))
        while len(rows):
            given_K = np.zeros(len(rows), dtype=bool)
            for a in random.permutation(len(self.devices_A)).tolist():
                given_K |= self._fill_type(genome_KJ, free_KA, draw_KJ, rows, a)
            rows = rows[given_K]
        return genome_KJ

    def _fill_type(self, genome_KJ: Ints, free_KA: Ints, draw_KJ: Floats, rows: Ints, a: int) -> Bools:
        """One step for as many jobs as the idle devices of a type are enough for; which rows gave any."""
        part_KJ, free_K = genome_KJ[rows], free_KA[rows, a]
        waits_KJ = part_KJ == NONE
        then_KJ = np.where(waits_KJ, self.first_JA[:, a], self.next_V[part_KJ])
        more_KJ = self.devices_V[then_KJ] - self.devices_V[part_KJ]
        may_KJ = (then_KJ != NONE) & (waits_KJ | (self.type_V[part_KJ] == a)) & (more_KJ <= free_K[:, None])
        order_KJ = np.argsort(
            np.where(may_KJ, draw_KJ[rows] * self.step_V[then_KJ], np.inf), axis=1, kind="stable"
        )
        more_KJ = np.take_along_axis(np.where(may_KJ, more_KJ, 0), order_KJ, axis=1)
        gets_KJ = (more_KJ > 0) & (np.cumsum(more_KJ, axis=1) <= free_K[:, None])
        free_KA[rows, a] -= np.where(gets_KJ, more_KJ, 0).sum(axis=1)
        then_KJ = np.where(gets_KJ, np.take_along_axis(then_KJ, order_KJ, axis=1), NONE)
        np.put_along_axis(
            part_KJ,
            order_KJ,
            np.where(gets_KJ, then_KJ, np.take_along_axis(part_KJ, order_KJ, axis=1)),
            axis=1,
        )
        genome_KJ[rows] = part_KJ
        return np.asarray(gets_KJ.any(axis=1))
