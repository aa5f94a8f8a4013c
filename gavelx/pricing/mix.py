"""The cheapest cluster for a list of jobs with deadlines, and the simulator's word on it.

The program of `gavelx.solvers.planning.purchase` says which whole instances suffice on paper: with jobs as a fluid
and all arrivals known in advance. A scheduler has rounds and does not know who will come. So the answer is
simulated under a policy that knows no more than a scheduler does; where deadlines are missed, that cluster and all
within it are ruled out, a little more work is asked for, and the next cheapest is tried. What comes of it are
three figures, in ascending order: the least that any cluster could cost (``lower_bound_usd_per_hour``), what the
cheapest cluster costs that suffices on paper, and what the cluster costs in which the simulator met every
deadline.

Instances are held from the first arrival to the last deadline. Gangs run within one kind of instance, at the speed
that is known for one server where they fit into one, and else for several.

Legend: J jobs, O offers (each is a pool of devices), G accelerator types, K intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gavelx.asking import Allocator
from gavelx.errors import OptionError, SolverError, WorkloadError
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.metrics import known
from gavelx.policies.deadlines import Deadlines
from gavelx.pricing.offers import Offer
from gavelx.pricing.task import Task, due_s
from gavelx.result import Result
from gavelx.solvers.planning.purchase import Bound, Purchase
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.settings import limited
from gavelx.throughputs import Throughputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Answer = TypeVar("Answer")
TRIES = 10
MARGIN = 0.0025
"""The part of every job by which more is asked for after the first cluster that failed; it doubles from there."""
RULES = replace(DEFAULT, turn=0.0)
"""Every round counts where deadlines are near, so nobody has long turns."""
ROUNDING_S = 1e-6
NEAR = 1e-6


class Try(NamedTuple):
    """A cluster that was simulated: its instances, their price, and the jobs that missed their deadlines."""

    instances_O: Ints
    usd_per_hour: float
    late_s: Mapping[int, float]


class Worth(NamedTuple):
    """What one more device of a type is worth beside what it costs, in dollars per hour.

    ``worth_usd_per_hour`` is what it would save if it were held all the time (the multiplier of its devices in the
    lower bound's program, where parts of instances can be had), ``peak_usd_per_hour`` what it would save in the
    hours in which it saves most. ``whole_usd_per_hour`` is by how much the cluster that suffices on paper would be
    cheaper, its own price included, if one whole instance more of the type could be had than there may be.
    """

    accelerator: str
    offer: Offer
    price_usd_per_hour: float
    worth_usd_per_hour: float
    peak_usd_per_hour: float
    whole_usd_per_hour: float

    @property
    def verdict(self) -> str:
        """Whether one more should be had.

        ``buy``: one whole instance more makes the cluster cheaper; only a type that is limited can be worth that.
        ``break-even``: a device is worth its price all the time, but no whole instance more makes it cheaper.
        ``rent``: a device is worth its price in some hours. ``drop``: never.
        """
        least = self.price_usd_per_hour * (1.0 - NEAR)
        if self.whole_usd_per_hour > 0:
            return "buy"
        if self.worth_usd_per_hour >= least:
            return "break-even"
        return "rent" if self.peak_usd_per_hour >= least else "drop"


@dataclass(frozen=True, eq=False)
class Mix:
    """The answer: what to buy, how good that is, and how it was found.

    ``paper_usd_per_hour`` is the price of the cheapest cluster that suffices on paper, which cannot cost less than
    ``proven_usd_per_hour``; ``lower_bound_usd_per_hour`` the same without whole numbers. The last of the ``tries``
    is the answer; ``confirmed`` says whether the simulator met every deadline in it.
    """

    task: Task
    lower_bound_usd_per_hour: float
    proven_usd_per_hour: float
    paper_usd_per_hour: float
    tries: tuple[Try, ...]
    worth: tuple[Worth, ...]
    policy: str

    @property
    def confirmed(self) -> bool:
        return not self.answer.late_s

    @property
    def answer(self) -> Try:
        return self.tries[-1]

    def bought(self) -> list[tuple[Offer, int]]:
        """Which instances, and how many of each."""
        pairs = zip(self.task.offers, self.answer.instances_O.tolist(), strict=True)
        return [(offer, int(count)) for offer, count in pairs if count]

    def to_json(self) -> dict[str, Any]:
        """What to buy, the bounds, every try, and what one more device is worth."""
        return {
            "instances": [{**offer._asdict(), "count": count} for offer, count in self.bought()],
            "usd_per_hour": self.answer.usd_per_hour,
            "hours": self.task.hours,
            "usd": self.answer.usd_per_hour * self.task.hours,
            "confirmed": self.confirmed,
            "late_s": {str(job_id): known(late) for job_id, late in self.answer.late_s.items()},
            "policy": self.policy,
            "lower_bound_usd_per_hour": self.lower_bound_usd_per_hour,
            "proven_usd_per_hour": self.proven_usd_per_hour,
            "paper_usd_per_hour": self.paper_usd_per_hour,
            "tries": [
                {
                    "instances": {
                        name: int(count)
                        for name, count in zip(self.task.names, one.instances_O, strict=True)
                        if count
                    },
                    "usd_per_hour": one.usd_per_hour,
                    "late": len(one.late_s),
                }
                for one in self.tries
            ],
            "worth": {
                one.accelerator: {
                    "price_usd_per_hour": one.price_usd_per_hour,
                    "worth_usd_per_hour": one.worth_usd_per_hour,
                    "peak_usd_per_hour": one.peak_usd_per_hour,
                    "whole_usd_per_hour": one.whole_usd_per_hour,
                    "verdict": one.verdict,
                }
                for one in self.worth
            },
        }


def cheapest_mix(
    jobs: Sequence[Job],
    throughputs: Throughputs,
    offers: Sequence[Offer],
    *,
    most: Mapping[str, int] | None = None,
    policy: Allocator | None = None,
    rules: Rules = RULES,
    seconds: float = 60.0,
    on_try: Callable[[int], None] = lambda _: None,
) -> Mix:
    """The cheapest instances with which every job meets its deadline, as the simulator confirms.

    Each program may take so many ``seconds``. Raises :class:`WorkloadError` for a job that no instance lets meet
    its deadline, :class:`OptionError` where ``most`` devices are too few, :class:`SolverError` out of time.
    """
    task = Task(jobs, throughputs, _undominated(jobs, throughputs, offers), most or {})
    _check_alone(task)
    policy, purchase = policy or Deadlines(), task.purchase()
    bound, paper = _solved(task, seconds, purchase.bound), _solved(task, seconds, lambda: purchase.cheapest(0.0))
    tries, answer = list[Try](), paper
    for number in range(TRIES):
        on_try(number)
        instances_O = answer.value_V.astype(np.int64)
        tries.append(Try(instances_O, answer.cost, _late_s(task.simulated(instances_O, policy, rules))))
        if not tries[-1].late_s:
            break
        try:
            with limited(seconds):
                answer = purchase.cheapest(MARGIN * (2 ** (number + 1) - 1), [one.instances_O for one in tries])
        except UnsolvedError:  # there is no larger cluster of use, or no time to find it
            break
    worth = _worth(task, purchase, bound, lambda name: _saved(task, name, paper.cost, seconds))
    return Mix(task, bound.usd_per_hour, paper.bound, paper.cost, tuple(tries), worth, str(policy))


def _solved(task: Task, seconds: float, solve: Callable[[], Answer]) -> Answer:
    """What ``solve`` answers; where it has no answer, because there is none or because its time is up."""
    try:
        with limited(seconds):
            return solve()
    except UnsolvedError as failure:
        if failure.status != "infeasible":
            raise SolverError(f"the mix was not found in {seconds:g} s: {failure.status}") from None
        limits = ",".join(f"{name}={count}" for name, count in task.most.items())
        problem, hint = "no cluster within these limits meets all deadlines", "more devices, or later deadlines"
        raise OptionError(problem, where=f"--max-devices {limits}", hint=hint) from None


def _late_s(result: Result) -> dict[int, float]:
    """By how much each job missed its deadline, of those that did; infinite for one that was never done."""
    late_s_J = result.completion_s_J - np.array([due_s(job) for job in result.jobs])
    late_s_J = np.where(np.isnan(late_s_J), np.inf, late_s_J)
    return {result.jobs[j].id: float(late_s_J[j]) for j in np.flatnonzero(late_s_J > ROUNDING_S).tolist()}


def _undominated(jobs: Sequence[Job], throughputs: Throughputs, offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Without the offers in whose place smaller ones of the same type do as well for no more money."""
    task = Task(jobs, throughputs, offers, {})

    def replaces(better: int, worse: int) -> bool:
        one, other = offers[better], offers[worse]
        if one.accelerator != other.accelerator or other.devices % one.devices:
            return False
        usd = one.usd_per_hour * (other.devices // one.devices)
        as_fast = (task.throughput_JO[:, better] >= task.throughput_JO[:, worse]).all()
        same = usd == other.usd_per_hour and one.devices == other.devices
        return bool(as_fast and usd <= other.usd_per_hour and not (same and better > worse))

    everything = range(len(offers))
    return tuple(offers[o] for o in everything if not any(replaces(n, o) for n in everything if n != o))


def _check_alone(task: Task) -> None:
    """Every job meets its deadline with all the time of its fastest type. Raises :class:`WorkloadError`."""
    most_O = np.array([task.most.get(offer.accelerator, np.inf) for offer in task.offers])
    fastest_J = np.where(task.scale_J[:, None] <= most_O, task.throughput_JO, 0.0).max(axis=1)
    for job, fastest in zip(task.jobs, fastest_J.tolist(), strict=True):
        where, window_h = f"job {job.id}", (due_s(job) - job.arrival_s) / 3600.0
        if not fastest:
            problem = f"{job.job_type!r} with scale factor {job.scale_factor} runs on nothing that is for sale"
            raise WorkloadError(problem, where=where, expected=f"some of {', '.join(task.accelerators)}")
        if (needed_h := job.total_steps / fastest / 3600.0) > window_h * (1.0 + 1e-9):
            problem = (
                f"it needs {needed_h:.4g} h where it is fastest; its deadline is {window_h:.4g} h after it comes"
            )
            raise WorkloadError(problem, where=where, hint=f"a deadline of at least {needed_h:.4g} h")


def _saved(task: Task, name: str, usd_per_hour: float, seconds: float) -> float:
    """By how much the cluster on paper is cheaper with one whole instance more of a type than there may be."""
    if name not in task.most:
        return 0.0  # it holds as many as are of use
    smallest = min(offer.devices for offer in task.offers if offer.accelerator == name)
    wider = replace(task, most={**task.most, name: task.most[name] + smallest})
    try:
        with limited(seconds):
            saved = usd_per_hour - wider.purchase().cheapest(0.0).cost
    except UnsolvedError:  # no time to find a cheaper one
        return 0.0
    return saved if saved > NEAR * usd_per_hour else 0.0


def _worth(task: Task, purchase: Purchase, bound: Bound, saved: Callable[[str], float]) -> tuple[Worth, ...]:
    """For each type its cheapest instance by device, and the most that a device of the type is worth."""
    part_K = purchase.fluid.length_s_K / purchase.fluid.length_s_K.sum()
    rows = []
    for name in task.accelerators:
        mine = [o for o, offer in enumerate(task.offers) if offer.accelerator == name]
        offer = min((task.offers[o] for o in mine), key=lambda offer: offer.usd_per_hour / offer.devices)
        best = max(mine, key=lambda o: float((bound.worth_PK[o] * part_K).sum()))
        worth_K = bound.worth_PK[best]
        price = offer.usd_per_hour / offer.devices
        mean, peak = float((worth_K * part_K).sum()), float(worth_K.max(initial=0.0))
        rows.append(Worth(name, offer, price, mean, peak, saved(name)))
    return tuple(rows)
