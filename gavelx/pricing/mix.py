"""The cheapest cluster for a list of jobs with deadlines, confirmed by simulation.

The program of `gavelx.solvers.planning.purchase` finds the whole instances that suffice on paper: with jobs as a
fluid, and all arrivals known in advance. A scheduler has rounds and does not know future arrivals. So the cluster
is simulated under a policy that knows no more than a scheduler does. If deadlines are missed, that cluster and all
clusters within it are excluded, the required work is raised a little, and the next cheapest cluster is tried. The
results are three figures, in ascending order: a lower bound for any cluster (``lower_bound_usd_per_hour``), the
price of the cheapest cluster that suffices on paper, and the price of the cluster in which the simulator met every
deadline.

Instances are held from the first arrival to the last deadline. Gangs run within one kind of instance, at the speed
of one server if they fit into one, and otherwise of several.

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
"""The part by which the work of every job is raised after the first failed cluster; it doubles each time."""
RULES = replace(DEFAULT, turn=0.0)
"""Rules without long turns, because near a deadline every round counts."""
ROUNDING_S = 1e-6
NEAR = 1e-6


class Try(NamedTuple):
    """A cluster that was simulated: its instances, their price, and the jobs that missed their deadlines."""

    instances_O: Ints
    usd_per_hour: float
    late_s: Mapping[int, float]


class Repetition(NamedTuple):
    """A mix with other speeds: the number of late jobs, and the price of the cheapest cluster on paper.

    The price is that of a buyer who knows these speeds; None if no cluster is enough, or none was found in time.
    """

    late: int
    paper_usd_per_hour: float | None


class Worth(NamedTuple):
    """The value and the price of one more device of a type, in dollars per hour.

    ``worth_usd_per_hour`` is the saving if it is held all the time (the multiplier of its devices in the lower
    bound's program, which allows parts of instances), ``peak_usd_per_hour`` the saving in the hours in which it is
    largest. ``whole_usd_per_hour`` is the saving of the cluster on paper, with the price of the new instance
    included, if the limit of the type were one whole instance higher.
    """

    accelerator: str
    offer: Offer
    price_usd_per_hour: float
    worth_usd_per_hour: float
    peak_usd_per_hour: float
    whole_usd_per_hour: float

    @property
    def verdict(self) -> str:
        """Whether to get one more device.

        ``buy``: one whole instance more makes the cluster cheaper; possible only for a type with a limit.
        ``break-even``: a device is worth its price all the time, but one whole instance more makes nothing
        cheaper. ``rent``: a device is worth its price in some hours. ``drop``: never.
        """
        least = self.price_usd_per_hour * (1.0 - NEAR)
        if self.whole_usd_per_hour > 0:
            return "buy"
        if self.worth_usd_per_hour >= least:
            return "break-even"
        return "rent" if self.peak_usd_per_hour >= least else "drop"


@dataclass(frozen=True, eq=False)
class Mix:
    """The result: the instances to buy, the bounds, and the clusters that were tried.

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
        """The instances to buy, and the number of each."""
        pairs = zip(self.task.offers, self.answer.instances_O.tolist(), strict=True)
        return [(offer, int(count)) for offer, count in pairs if count]

    def to_json(self) -> dict[str, Any]:
        """The instances, the bounds, every try, and the value of one more device."""
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
    """Find the cheapest instances with which every job meets its deadline, confirmed by simulation.

    Each program may take ``seconds``. Raises :class:`WorkloadError` for a job that cannot meet its deadline on any
    instance, :class:`OptionError` if ``most`` devices are too few, :class:`SolverError` if the time is up.
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
        except UnsolvedError:  # no larger cluster helps, or there was no time to find it
            break
    worth = _worth(task, purchase, bound, lambda name: _saved(task, name, paper.cost, seconds))
    return Mix(task, bound.usd_per_hour, paper.bound, paper.cost, tuple(tries), worth, str(policy))


def repeated(
    found: Mix, throughputs: Throughputs, policy: Allocator, rules: Rules = RULES, seconds: float = 60.0
) -> Repetition:
    """Simulate the mix that was found with other speeds, and find the cheapest cluster on paper with them."""
    task = replace(found.task, throughputs=throughputs)
    late = len(_late_s(task.simulated(found.answer.instances_O, policy, rules)))
    try:
        _check_alone(task)  # the program supposes it
        with limited(seconds):
            return Repetition(late, task.purchase().cheapest(0.0).cost)
    except (UnsolvedError, WorkloadError):
        return Repetition(late, None)


def _solved(task: Task, seconds: float, solve: Callable[[], Answer]) -> Answer:
    """The answer of ``solve``, with its failures as errors: no cluster is possible, or the time is up."""
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
    """Seconds by which jobs missed their deadlines; infinite for a job that was never complete."""
    late_s_J = result.completion_s_J - np.array([due_s(job) for job in result.jobs])
    late_s_J = np.where(np.isnan(late_s_J), np.inf, late_s_J)
    return {result.jobs[j].id: float(late_s_J[j]) for j in np.flatnonzero(late_s_J > ROUNDING_S).tolist()}


def _undominated(jobs: Sequence[Job], throughputs: Throughputs, offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers without those that smaller ones of the same type can replace for no more money."""
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
    """Raise :class:`WorkloadError` for a job that misses its deadline even alone on its fastest type."""
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
    """The saving of the cluster on paper if the limit of a type were one whole instance higher."""
    if name not in task.most:
        return 0.0  # without a limit, the cluster has as many as are of use
    smallest = min(offer.devices for offer in task.offers if offer.accelerator == name)
    wider = replace(task, most={**task.most, name: task.most[name] + smallest})
    try:
        with limited(seconds):
            saved = usd_per_hour - wider.purchase().cheapest(0.0).cost
    except UnsolvedError:  # no time to find a cheaper one
        return 0.0
    return saved if saved > NEAR * usd_per_hour else 0.0


def _worth(task: Task, purchase: Purchase, bound: Bound, saved: Callable[[str], float]) -> tuple[Worth, ...]:
    """For each type, its cheapest instance by device, and the value of a device of the type."""
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
