"""Capacity of a run over time: servers that come and go (``--spot-availability``), or some of their devices
(``--lending``)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gavelx.cli.conditions import within
from gavelx.cli.run_options import RunOptions
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, WorkloadError
from gavelx.files.lending import is_series, load_offers, read_day
from gavelx.files.spot_availability import load_availability
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.published import AnyRules
from gavelx.simulator.capacity import HORIZON_S, NOTICE_S, Capacity, at_best, diurnal
from gavelx.snapshot import Kind
from gavelx.throughputs import Throughputs
from gavelx.workload import runnable

NOTICE = (0.0, 86400.0)
"""Least and greatest seconds between the notice and the loss of a server or a device."""
LENDING_NOTICE_S = 30.0


def capacities_of(typed: RunOptions, cluster: Cluster, rules: AnyRules) -> tuple[Capacity, ...]:
    """When servers of each type are taken away and come back, or some of their devices.

    Raises :class:`OptionError` or :class:`InputFileError`.
    """
    if typed.lending is None and typed.lending_notice != LENDING_NOTICE_S:
        raise OptionError("no device is taken back", where="--lending-notice", expected="--lending with it")
    for option, given in (("--spot-availability", typed.spot_availability), ("--lending", typed.lending)):
        if given is not None and not isinstance(rules, Rules):
            problem = f"the rules {rules.name!r} have no servers that come and go"
            raise OptionError(problem, where=option, expected="the rules 'default'")
    if typed.lending is not None and typed.spot_availability is not None:
        where = "--spot-availability and --lending"
        raise OptionError("both say what is there for jobs", where=where, expected="one")
    return _spot(typed, cluster) if typed.lending is None else tuple(_lent(typed, typed.lending, cluster))


def _lent(typed: RunOptions, spec: str, cluster: Cluster) -> Iterator[Capacity]:
    notice_s = within(typed.lending_notice, NOTICE, "--lending-notice", "a notice of {:g} s", "seconds")
    if is_series(spec):
        day = read_day(spec)
        shares = diurnal(day["least"], day["most"], step_s=day["step"], busiest_s=day["busiest"])
        for name in cluster.accelerators:
            yield Capacity(name, shares, notice_s, of="devices")
        return
    most = dict[str, int]()
    for server in cluster.servers:
        most[server.accelerator] = max(server.device_count, most.get(server.accelerator, 0))
    for name, offers in load_offers(spec, most).items():
        begin_s = [0.0, *(time_s for time_s, _ in offers)]
        parts = [1.0, *(devices / most[name] for _, devices in offers)]
        seconds = [
            end - begin for begin, end in zip(begin_s, [*begin_s[1:], begin_s[-1] + HORIZON_S], strict=True)
        ]
        shares = [(length, part) for length, part in zip(seconds, parts, strict=True) if length > 0.0]
        yield Capacity(name, shares, notice_s, of="devices", of_devices=most[name])


def _spot(typed: RunOptions, cluster: Cluster) -> tuple[Capacity, ...]:
    if typed.spot_availability is None:
        if typed.spot_notice != NOTICE_S:
            problem = "no server is taken away"
            raise OptionError(problem, where="--spot-notice", expected="--spot-availability with it")
        return ()
    within(typed.spot_notice, NOTICE, "--spot-notice", "a notice of {:g} s", "seconds")
    if typed.failures is not None and "servers" in typed.failures:
        raise OptionError("both say when servers go", where="--spot-availability and --failures", expected="one")
    found = load_availability(typed.spot_availability, cluster.accelerators, place=typed.spot_place)
    return tuple(Capacity(name, shares, typed.spot_notice) for name, shares in found.items())


def check_capacities(
    jobs: Sequence[Job],
    cluster: Cluster,
    capacities: Sequence[Capacity],
    throughputs: Throughputs,
    opens: frozenset[Kind],
) -> None:
    """Check that each job can run at some time, with what is lent in the end if that holds for ever.

    Raises :class:`WorkloadError` about the first that never can.
    """
    there = at_best(cluster, [_in_the_end(capacity) for capacity in capacities])
    able = {job.id for job in runnable(jobs, there, throughputs, opens)}
    if (never := next((job for job in jobs if job.id not in able), None)) is not None:
        raise WorkloadError(
            f"job {never.id} needs {never.scale_factor} devices of a type that it runs on, and of {cluster} there "
            f"are never more than {there} together for longer than the notice",
            where="--lending" if capacities[0].of == "devices" else "--spot-availability",
            hint="a larger --cluster, a shorter notice, or --skip-unrunnable",
        )


def _in_the_end(capacity: Capacity) -> Capacity:
    """A series that ends, from its end on; one that repeats as it is."""
    last = capacity.shares[-1]
    return replace(capacity, shares=[last]) if last[0] >= HORIZON_S else capacity
