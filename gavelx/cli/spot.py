"""The prices of a run and how they change, and the servers that come and go: from what the user typed."""

from collections.abc import Sequence

from gavelx.cli.conditions import within
from gavelx.cli.run_options import RunOptions
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, WorkloadError
from gavelx.files.price_changes import load_price_changes
from gavelx.files.price_tables import load_prices
from gavelx.files.spot_availability import load_availability
from gavelx.files.spot_history import load_spot_history
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.prices import Prices
from gavelx.published import AnyRules
from gavelx.simulator.capacity import NOTICE_S, Capacity, at_best
from gavelx.throughputs import Throughputs
from gavelx.workload import runnable

DEFAULT_PRICES = "gcp"
NOTICE = (0.0, 86400.0)
PriceChanges = tuple[tuple[float, Prices], ...]


def prices_of(typed: RunOptions, cluster: Cluster) -> tuple[Prices, PriceChanges]:
    """The prices at the start, and what they become. Raises :class:`OptionError` or :class:`InputFileError`.

    Each price that is asked for must be known; without asking, or where spot prices come besides, those count that
    happen to be known.
    """
    accelerators = cluster.accelerators
    spot = typed.spot_history
    strict = typed.prices is not None and spot is None
    prices = load_prices(typed.prices or DEFAULT_PRICES, accelerators, strict=strict)
    if spot is None and typed.spot_availability is None and typed.spot_place is not None:
        raise OptionError(
            "there are no spot servers and no spot prices",
            where="--spot-place",
            expected="--spot-history or --spot-availability with it",
        )
    if spot is None:
        if typed.spot_start is not None:
            raise OptionError("there is no price history", where="--spot-start", expected="--spot-history with it")
        if typed.price_changes is None:
            return prices, ()
        return prices, load_price_changes(typed.price_changes, prices, accelerators)
    if typed.price_changes is not None:
        raise OptionError("both say how prices change", where="--spot-history and --price-changes", expected="one")
    recorded = load_spot_history(spot, prices, accelerators, place=typed.spot_place, start=typed.spot_start)
    unpriced = [name for name in accelerators if name not in recorded.prices.usd_per_hour]
    if typed.prices is not None and unpriced:
        load_prices(typed.prices, unpriced)  # says which price is missing
    return recorded.prices, recorded.changes


def capacities_of(typed: RunOptions, cluster: Cluster, rules: AnyRules) -> tuple[Capacity, ...]:
    """When servers go and come back. Raises :class:`OptionError` or :class:`InputFileError`."""
    if typed.spot_availability is None:
        if typed.spot_notice != NOTICE_S:
            problem = "no server is taken away"
            raise OptionError(problem, where="--spot-notice", expected="--spot-availability with it")
        return ()
    within(typed.spot_notice, NOTICE, "--spot-notice", "a notice of {:g} s", "seconds")
    if not isinstance(rules, Rules):
        problem = f"the rules {rules.name!r} know nothing like it"
        raise OptionError(problem, where="--spot-availability", expected="the rules 'default'")
    if typed.failures is not None and "servers" in typed.failures:
        raise OptionError("both say when servers go", where="--spot-availability and --failures", expected="one")
    found = load_availability(typed.spot_availability, cluster.accelerators, place=typed.spot_place)
    return tuple(Capacity(name, shares, typed.spot_notice) for name, shares in found.items())


def check_capacities(
    jobs: Sequence[Job], cluster: Cluster, capacities: Sequence[Capacity], throughputs: Throughputs
) -> None:
    """Every job finds enough servers at times. Raises :class:`WorkloadError` about the first that never does."""
    there = at_best(cluster, capacities)
    able = {job.id for job in runnable(jobs, there, throughputs)}
    if (never := next((job for job in jobs if job.id not in able), None)) is not None:
        raise WorkloadError(
            f"job {never.id} needs {never.scale_factor} devices of a type that it runs on, and of {cluster} there "
            f"are never more than {there} together for longer than the notice",
            where="--spot-availability",
            hint="a larger --cluster, a shorter --spot-notice, or --skip-unrunnable",
        )
