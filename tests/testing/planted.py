"""Policies with one fault each, for the kit to find."""

import dataclasses
import datetime
import random
import time
from time import time as now_s

import numpy as np

from gavelx.allocation import Allocation, Certificate
from gavelx.policies import (
    Isolated,
    Linear,
    Maximize,
    MaxMinFairness,
    Modifier,
    NormalizedThroughput,
    Policy,
    SumThroughput,
    Throughput,
    Worst,
)
from gavelx.policies.greedy import Handout
from gavelx.policies.hierarchical import Hierarchical
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired
from gavelx.solvers.program.statement import Affine
from gavelx.testing.changes import weighing
from gavelx.testing.invariance import LATER_S


class Fair(MaxMinFairness):
    """A good policy, to spoil."""

    name = ""
    promises = ()


class Greedy(Policy):
    """All of every type to everyone, and a certificate that says all is well."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        share_C = np.ones(len(snapshot.configurations))
        return Allocation(snapshot, share_C, Certificate(None, None, 0.0, "greedy", 0, 0.0))


class Boaster(Fair):
    """Claims more than its shares give."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return boasted(super().allocate(snapshot), objective=1.0)


class SureOfItself(Fair):
    """Claims a bound that its own answer passes."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return boasted(super().allocate(snapshot), bound=-1.0)


class Queue(Policy):
    """The first three jobs of the list share the cluster."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.arange(len(snapshot.jobs)) < 3)


class Snob(Policy):
    """Prefers accelerators by the sound of their names."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        best = min(snapshot.accelerators)
        liked_C = np.array([snapshot.accelerators[a] == best for a in snapshot.configurations.accelerator_C])
        return masked(snapshot, liked_C)


class Dice(Policy):
    """Another answer every time."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.full(len(snapshot.jobs), random.SystemRandom().random()))


class Memory(Policy):
    """Remembers whether it was asked before."""

    asked = False

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part, self.asked = (0.5 if self.asked else 1.0), True
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Doorkeeper(Fair):
    """Lets in whom it remembers, and who has just come: who is once forgotten stays outside."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        allocation, table = super().allocate(snapshot), snapshot.configurations
        ids = np.array([job.id for job in snapshot.jobs], dtype=np.int64)
        inside_J = np.isin(ids, snapshot.memory.get("inside", ids[:0])) | (snapshot.elapsed_s_J == 0.0)
        share_C = allocation.share_C * np.where(table.members_C == 1, inside_J[table.job_M], False)
        return certified(snapshot, share_C, path="door", seconds=0.0).with_memory({"inside": ids[inside_J]})


class Warming(Policy):
    """Half of everything the first time it is ever asked."""

    asked = False

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part, Warming.asked = (1.0 if Warming.asked else 0.5), True
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Vandal(Fair):
    """Takes the steps that are left down to nothing in the snapshot itself."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        allocation = super().allocate(snapshot)
        snapshot.steps_left_J.setflags(write=True)
        snapshot.steps_left_J[:] = 0.0
        return allocation


class Parked(Policy):
    """Time everywhere, also where it is of no use."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return Isolated().allocate(snapshot)


class Peeper(Policy):
    """Looks at what was not opened for it: with pairs known, everyone gets half."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part = 0.5 if (snapshot.known.members_C > 1).any() else 1.0
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Dollars(Policy):
    """Half of everything if the first type costs more than a dollar."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        part = 0.5 if snapshot.usd_per_hour_A[0] > 4.0 else 1.0
        return scaled(snapshot, np.full(len(snapshot.jobs), part))


class Steps(Policy):
    """Nothing for jobs with more than 5000 steps to go."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, snapshot.steps_left_J < 5000.0)


class Fragile(Fair):
    """Does not think of an empty cluster."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot.jobs[0]
        return super().allocate(snapshot)


class Faster(Policy):
    """Answers with speeds of its own."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table = snapshot.known
        better = dataclasses.replace(table, throughput_M=table.throughput_M * 2.0)
        return scaled(snapshot.replace(known=better), np.ones(len(snapshot.jobs)))


class Wasteful(Policy):
    """Half of the cluster stays idle."""

    promises = ("pareto_efficiency",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return scaled(snapshot, np.full(len(snapshot.jobs), 0.5))


class Starving(Maximize):
    """The most steps per second, whoever's they are."""

    promises = ("sharing_incentive",)

    def __init__(self) -> None:
        super().__init__(SumThroughput())


class OwnerStarving(Starving):
    """The same, with a promise to owners."""

    promises = ("owner_sharing_incentive",)


class DeviceCounting(Hierarchical):
    """Owners share devices whatever these cost."""

    promises = ("value_fairness",)

    def __init__(self) -> None:
        super().__init__(MaxMinFairness(), {})


class Envied(Starving):
    """The same, with another promise."""

    promises = ("envy_freeness",)


class Gullible(Fair):
    """Believes everyone, and says that this does not matter."""

    promises = ("strategy_proofness",)


class Vague(Fair):
    """Promises what nobody can check."""

    promises = ("justice",)


class Floor(Maximize):
    """Cannot be met where a job can run nowhere."""

    def __init__(self) -> None:
        super().__init__(Worst(NormalizedThroughput()), [Throughput() >= 1e-3])


class Plain(Policy):
    """A good policy that is no program, to spoil: fair, by weights."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return MaxMinFairness().allocate(snapshot)


class Liar(Plain):
    """Figures out of thin air."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return claimed(super().allocate(snapshot), objective=123.0, bound=1.0)


class TwoFaced(Plain):
    """Its bound is above the objective for an even number of jobs, and below it for an odd one."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        J = len(snapshot.jobs)
        return claimed(super().allocate(snapshot), objective=float(J), bound=J + (-1.0) ** J)


class Overvalued(Plain):
    """Says how good shares are, and that its own are better."""

    def gain(self, snapshot: Snapshot, share_C: np.ndarray) -> float:
        return float(share_C.sum())

    def allocate(self, snapshot: Snapshot) -> Allocation:
        answer = super().allocate(snapshot)
        return claimed(answer, objective=self.gain(snapshot, answer.share_C) + 1.0, bound=None)


class Leveller(Plain):
    """All jobs weigh the same."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return dataclasses.replace(super().allocate(weighing(snapshot, 1.0)), snapshot=snapshot)


class UpsideDown(Plain):
    """Who weighs most gets least."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        jobs = tuple(dataclasses.replace(job, weight=1.0 / job.weight) for job in snapshot.jobs)
        return dataclasses.replace(super().allocate(snapshot.replace(jobs=jobs)), snapshot=snapshot)


class Narrow(Policy):
    """Gangs wait for ever."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return handed_out(snapshot, -snapshot.elapsed_s_J, snapshot.scale_factor_J == 1)


class Alone(Policy):
    """Gangs get devices only while no other job is there."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        narrow_J = snapshot.scale_factor_J == 1
        return handed_out(snapshot, -snapshot.elapsed_s_J, narrow_J if narrow_J.any() else None)


class ShortNames(Policy):
    """Jobs whose types have short names come first."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return handed_out(snapshot, np.array([len(job.job_type) for job in snapshot.jobs], dtype=float))


class SmallFirst(Policy):
    """Jobs with fewer than a thousand steps to go come first."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return handed_out(snapshot, snapshot.steps_left_J >= 1000.0)


class Alphabetical(Policy):
    """Jobs of the types that come first in the alphabet come first."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        names = sorted({job.job_type for job in snapshot.jobs})
        return handed_out(snapshot, np.array([names.index(job.job_type) for job in snapshot.jobs], dtype=float))


class AnyOwner(Policy):
    """Owners come in the order of a set, which is another in each process."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        owners = list({job.owner for job in snapshot.jobs})
        return handed_out(snapshot, np.array([owners.index(job.owner) for job in snapshot.jobs], dtype=float))


class SixtyFour(Plain):
    """Has a bit for each job."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        assert len(snapshot.jobs) <= 64
        return super().allocate(snapshot)


class Few(Plain):
    """Only the thirty-two that came first get anything."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table, late_J = snapshot.configurations, np.argsort(-snapshot.elapsed_s_J, kind="stable").argsort() >= 32
        share_C = super().allocate(snapshot).share_C * ~late_J[table.job_M[np.argsort(table.configuration_M)]]
        return certified(snapshot, repaired(snapshot, share_C), path="few", seconds=0.0)


class Rounded(Plain):
    """Weights are whole numbers; a job of less than 1 gets nothing."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return served(super().allocate(snapshot), snapshot.weight_J.astype(int) > 0)


class Owned(Plain):
    """Jobs without an owner get nothing."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return served(super().allocate(snapshot), np.array([job.owner != "" for job in snapshot.jobs], dtype=bool))


class Due(Plain):
    """While a job has a deadline, those without one get nothing."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        due_J = np.array([job.slo is not None for job in snapshot.jobs], dtype=bool)
        return served(super().allocate(snapshot), due_J | ~due_J.any())


class Impatient(Policy):
    """A job that takes a quarter of an hour for a step is no job."""

    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        table, fast_J = snapshot.configurations, np.zeros(len(snapshot.jobs))
        np.maximum.at(fast_J, table.job_M, table.throughput_M)
        return handed_out(snapshot, -snapshot.elapsed_s_J, fast_J > 1e-3)


class Divides(Plain):
    """By all prices and all that is left."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        assert (snapshot.usd_per_hour_A > 0).all() or not len(snapshot.accelerators)
        return super().allocate(snapshot)


class Nearly(Plain):
    """Does not think of a job of which rounding has left a trace."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        assert (snapshot.steps_left_J > 1e-6).all()
        return super().allocate(snapshot)


class Unbound(Modifier):
    """A program without its constraints."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return MaxMinFairness().allocate(snapshot)


class Sleeper(Plain):
    """Takes its time without doing anything."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        time.sleep(0.3)
        return super().allocate(snapshot)


class Exponential(Plain):
    """Looks at every set of jobs."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        for _ in range(2 ** len(snapshot.jobs)):
            pass
        return super().allocate(snapshot)


class OddSeconds(Plain):
    """Half of everything in even seconds."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), int(snapshot.time_s) % 2 == 0)


class Nights(Plain):
    """Half of everything at night."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), snapshot.time_s % 86_400 < 6 * 3600)


class Clock(Plain):
    """Half of everything in even minutes of the wall clock."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), int(time.time() // 60) % 2 == 0)


class Calendar(Plain):
    """Half of everything in every other stretch of a day, an hour, a minute and a second."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), datetime.datetime.now().timestamp() // LATER_S % 2 == 0)


class Wristwatch(Plain):
    """Half of everything in even minutes of the wall clock, read in another way."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), time.localtime().tm_min % 2 == 0)


class Sundial(Plain):
    """The same from a text."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return halved(super().allocate(snapshot), int(time.strftime("%M")) % 2 == 0)


class HalfInEvenMinutes(Linear):
    """Normalized throughput; in even minutes of the wall clock that of the first job counts half."""

    def linear(self, view: View) -> Affine:
        first_J = np.arange(view.J) == 0
        return view.normalized_throughput.scaled(np.where(first_J & (now_s() // 60 % 2 == 0), 0.5, 1.0))


class ClockInATerm(Maximize):
    """A program of such a term."""

    def __init__(self) -> None:
        super().__init__(Worst(HalfInEvenMinutes()))


class Grateful(Plain):
    """The jobs that it has seen before get half."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def allocate(self, snapshot: Snapshot) -> Allocation:
        known = {job.id for job in snapshot.jobs} <= self.seen
        self.seen |= {job.id for job in snapshot.jobs if snapshot.time_s > 3000}
        return halved(super().allocate(snapshot), known)


def handed_out(snapshot: Snapshot, first_J: np.ndarray, may_J: np.ndarray | None = None) -> Allocation:
    """Whole devices, least in this key first, to those who may have some."""
    handout, id_J = Handout(snapshot), np.array([job.id for job in snapshot.jobs], dtype=int)
    handout.in_order(j for j in np.lexsort((id_J, first_J)).tolist() if may_J is None or may_J[j])
    return handout.allocation()


def served(allocation: Allocation, may_J: np.ndarray) -> Allocation:
    """The allocation without the shares of other jobs."""
    table = allocation.snapshot.configurations
    share_C = allocation.share_C * may_J[table.job_M[np.argsort(table.configuration_M)]]
    return certified(allocation.snapshot, repaired(allocation.snapshot, share_C), path="", seconds=0.0)


def halved(allocation: Allocation, wanted: bool) -> Allocation:
    """Half of every share, if that is wanted."""
    if not wanted:
        return allocation
    return certified(
        allocation.snapshot, repaired(allocation.snapshot, allocation.share_C / 2), path="", seconds=0.0
    )


def claimed(allocation: Allocation, **figures: float | None) -> Allocation:
    """The allocation with these figures in its certificate."""
    return dataclasses.replace(allocation, certificate=dataclasses.replace(allocation.certificate, **figures))


def boasted(allocation: Allocation, **shifts: float) -> Allocation:
    """The allocation with the objective, so much better, as some figures of its certificate."""
    seen = allocation.certificate
    changes = {name: (seen.objective or 0.0) + shift for name, shift in shifts.items()}
    return dataclasses.replace(allocation, certificate=dataclasses.replace(seen, **changes))


def scaled(snapshot: Snapshot, part_J: np.ndarray) -> Allocation:
    """A part of an equal share of the types that each job can use."""
    table = snapshot.configurations
    part_C = np.zeros(len(table))
    np.add.at(part_C, table.configuration_M, part_J[table.job_M].astype(float))
    return masked(snapshot, part_C)


def masked(snapshot: Snapshot, part_C: np.ndarray) -> Allocation:
    """A part of an equal share, configuration by configuration."""
    table = snapshot.configurations
    share_C = part_C * snapshot.devices_A[table.accelerator_C] / (table.devices_C * max(1, len(snapshot.jobs)))
    share_C = repaired(snapshot, np.where(snapshot.usable_C, np.minimum(1.0, share_C), 0.0))
    return certified(snapshot, share_C, path="planted", seconds=0.0)
