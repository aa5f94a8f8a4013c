"""``gavelx mix``: the cheapest instances that meet the deadlines of a trace, and the value of one more device."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from gavelx.cli.conditions import ROUND_S, within
from gavelx.cli.estimated_speeds import check_names, check_types, estimated
from gavelx.cli.intervals import intervals_of
from gavelx.cli.money_options import MixOptions
from gavelx.cli.output import print_json, prints_aside, stderr, stdout
from gavelx.cli.prices import tell_of_age, terms_of
from gavelx.cli.scenario import SPEED_SAMPLES
from gavelx.cli.solving import solver_settings
from gavelx.cli.stopping import stoppable
from gavelx.cli.tables import plain_table, policy_cell, print_speeds
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, WorkloadError
from gavelx.estimator.sampled_table import sampled
from gavelx.files.data_sheets import load_data_sheets, meant_by, other_spellings
from gavelx.files.price_tables import Terms, parts_of, split_specs
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.policies import load_policy
from gavelx.pricing.mix import RULES, Mix, Repetition, cheapest_mix, repeated
from gavelx.pricing.offers import load_offers, sold_types
from gavelx.report.speeds import speeds_to_json, speeds_used
from gavelx.report.words import dollars, hours, number
from gavelx.result import Intervals
from gavelx.solvers import using
from gavelx.spelling import as_spelled
from gavelx.throughputs import Throughputs
from gavelx.workload import check_accelerators, check_workload

DEVICES_MAX = 100_000
"""The most devices of one type; a larger number is probably a typing mistake."""
NAME = re.compile(r"[a-z0-9._-]+")
LATE_SHOWN = 10
HINT = "--accelerators TYPE,... with a type that --prices sells, or a trace without such jobs"
DEADLINE_H = (1e-3, 1e6)
SPOT = "spot instances may be taken away, and their prices change; the simulator leaves out both"


def mix(typed: MixOptions, *, as_json: bool) -> bool:
    """Find the mix and print it; return whether the simulator confirmed it."""
    with prints_aside():
        load_policy(typed.policy)
    settings = solver_settings("auto", typed.time_budget)
    throughputs = load_throughputs(typed.table)
    jobs = _read_jobs(typed, throughputs)
    tables = [spec for spec in split_specs(typed.prices) if parts_of(spec)[0]]
    terms = terms_of(typed.as_of, typed.kind, typed.discount, tables)
    wanted = _accelerators(typed, throughputs, jobs, terms)
    throughputs = throughputs.also_called(other_spellings(wanted, throughputs.accelerators))
    offers = load_offers(typed.prices, wanted, terms)
    most = _most(typed.max_devices, wanted)
    offered = list(dict.fromkeys(offer.accelerator for offer in offers))
    if not typed.strict_speeds:
        check_names(jobs, offered, throughputs, str(find_trace(typed.trace)))
        throughputs = estimated(throughputs, jobs, offered)
    jobs = _checked(typed, jobs, throughputs, offered)
    speeds, rules = speeds_used(jobs, offered, throughputs), _rules(typed.round_s)
    samples = SPEED_SAMPLES if typed.speed_samples is None else typed.speed_samples
    samples *= any(row.estimated for row in speeds)
    repetitions = []
    with prints_aside(), using(settings), stoppable(typed.policy) as policy:
        found = cheapest_mix(
            jobs,
            throughputs,
            offers,
            most=most,
            policy=policy,
            rules=rules,
            seconds=typed.time_budget,
            on_try=lambda number: stderr().print(f"simulating cluster {number + 1}", style="dim"),
        )
        if samples:
            stderr().print(f"simulating it {samples} more times, with speeds drawn from their ranges", style="dim")
        for sample in range(1, samples + 1):
            drawn = sampled(throughputs, sample)
            repetitions.append(repeated(found, drawn, policy, rules, typed.time_budget))
    bought = [offer for offer, _ in found.bought()]
    if terms.kind == "spot":
        stderr().print(SPOT, soft_wrap=True)
    tell_of_age({str(one): one.as_of for one in bought if one.as_of is not None}, typed.prices, typed.as_of)
    if as_json:
        asked = {"prices": typed.prices, "as_of": terms.as_of, "kind": terms.kind}
        again = {"repetitions": [one._asdict() for one in repetitions]} if repetitions else {}
        intervals = _intervals(repetitions)
        again |= intervals.to_json() if intervals else {}
        print_json(asked | found.to_json() | again | speeds_to_json(speeds))
    else:
        print_mix(found, repetitions, terms.kind, stdout())
        print_speeds(speeds, stdout())
    return found.confirmed


def _rules(round_s: float | None) -> Rules:
    """The rules of the simulation that confirms the mix."""
    if round_s is None:
        return RULES
    return RULES.with_round(within(round_s, ROUND_S, "--round", "a round of {:g} s", "seconds"))


def _accelerators(typed: MixOptions, throughputs: Throughputs, jobs: Sequence[Job], terms: Terms) -> list[str]:
    """The types to choose from; by default, all in the table, and with jobs that it lacks all that are sold."""
    text = typed.accelerators
    if text is None:
        known = list(throughputs.accelerators)
        if typed.strict_speeds or all(job.job_type in throughputs.job_types for job in jobs):
            return known
        sheets, meant = load_data_sheets(), meant_by(known)
        return known + [
            name for name in sold_types(typed.prices, terms) if sheets.has(name) and meant(name) is None
        ]
    wanted = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not wanted:
        raise OptionError(f"{text!r} names no type", where="--accelerators", hint="--accelerators v100,p100,k80")
    sheets = load_data_sheets()
    estimated = [name for name in wanted if NAME.fullmatch(name) and sheets.has(name) and not typed.strict_speeds]
    check_types(wanted, throughputs, "--accelerators")
    check_accelerators([name for name in wanted if name not in estimated], throughputs)
    return wanted


def _most(text: str | None, wanted: Sequence[str]) -> dict[str, int]:
    """Read ``v100=8,k80=0``. Raises :class:`OptionError`."""
    most: dict[str, int] = {}
    for part in text.split(",") if text is not None else ():
        name, _, count = (piece.strip() for piece in part.lower().partition("="))
        where, expected = "--max-devices", "TYPE=COUNT between commas, such as v100=8,k80=0"
        if not (name and count.isascii() and count.isdigit()) or name in most:
            raise OptionError(f"cannot read {part!r:.80} in {text!r:.80}", where=where, expected=expected)
        if len(count) > 9 or int(count) > DEVICES_MAX:
            raise OptionError(f"{count:.20} devices of {name}", where=where, expected=f"at most {DEVICES_MAX}")
        if name not in wanted:
            raise OptionError(f"{name!r:.80} is not one of the types", where=where, hint=", ".join(wanted))
        most[name] = int(count)
    return most


def _read_jobs(typed: MixOptions, throughputs: Throughputs) -> tuple[Job, ...]:
    return as_spelled(read_trace(find_trace(typed.trace)), throughputs.job_types)


def _checked(
    typed: MixOptions, jobs: tuple[Job, ...], throughputs: Throughputs, accelerators: Sequence[str]
) -> tuple[Job, ...]:
    """The jobs of the trace; each can run on some type and has a deadline."""
    hours_, path = typed.deadline_h, find_trace(typed.trace)
    if hours_ is not None:
        within(hours_, DEADLINE_H, "--deadline", "a deadline of {:g} hours", "hours")
    anything = Cluster.of(dict.fromkeys(accelerators, DEVICES_MAX), DEVICES_MAX)
    try:
        check_workload(jobs, anything, throughputs, str(path))
    except WorkloadError as error:
        hint = HINT if "--skip-unrunnable" in error.hint else error.hint  # which other commands have
        raise WorkloadError(error.problem, where=error.where, expected=error.expected, hint=hint) from None
    if hours_ is not None:
        seconds = hours_ * 3600.0
        jobs = tuple(
            job if job.deadline_s is not None else replace(job, slo=1.0, duration_s=seconds) for job in jobs
        )
    if never := [job.id for job in jobs if job.deadline_s is None]:
        which = (
            f"job {never[0]} has" if len(never) == 1 else f"{len(never)} jobs, the first of them {never[0]}, have"
        )
        expected = "the columns slo and duration_s, or a deadline for jobs without them"
        raise OptionError(f"{which} no deadline", where=str(path), expected=expected, hint="--deadline 24")
    return jobs


def _intervals(repetitions: Sequence[Repetition]) -> Intervals | None:
    """The interval of the price on paper, if a cluster was found in each repetition; None without repetitions."""
    figures = {(0, n): one._asdict() for n, one in enumerate(repetitions)}
    return intervals_of(figures)[0] if figures else None


def print_mix(found: Mix, repetitions: Sequence[Repetition], kind: str, console: Console) -> None:
    """Print the mix, its bounds, the results of the simulations, and the value of one more device.

    ``kind`` is that of its prices.
    """
    table = plain_table()
    for heading in ("instance", "region", "holds"):
        table.add_column(heading, overflow="fold")
    for heading in ("how many", "$/hour each", "$/hour"):
        table.add_column(heading, justify="right")
    for offer, count in found.bought():
        holds = f"{offer.devices} {offer.accelerator}"
        cells = (f"{count:,}", dollars(offer.usd_per_hour), dollars(count * offer.usd_per_hour))
        table.add_row(policy_cell(str(offer)), policy_cell(offer.region), policy_cell(holds), *cells)
    console.print(table)
    console.print()
    facts = plain_table(show_header=False)
    for name, text in _facts(found, repetitions, kind).items():
        facts.add_row(name, policy_cell(text))
    console.print(facts)
    console.print()
    _print_worth(found, console)


def _facts(found: Mix, repetitions: Sequence[Repetition], kind: str) -> dict[str, str]:
    usd, hours_ = found.answer.usd_per_hour, found.task.hours
    at = f", at {kind} prices" if kind != "on_demand" else ""
    late, tried = found.answer.late_s, len(found.tries)
    cheaper = f"{tried - 1} cheaper cluster{'s' * (tried > 2)}"
    after = "" if tried == 1 else f"; in {cheaper} some are missed"
    said = f"every deadline is met under {found.policy}{after}"
    if late:
        shown = ", ".join(
            f"{job_id} by {hours(seconds)} h" if math.isfinite(seconds) else f"{job_id} for ever"
            for job_id, seconds in list(late.items())[:LATE_SHOWN]
        )
        more = f" and {len(late) - LATE_SHOWN} more" if len(late) > LATE_SHOWN else ""
        said = f"NOT CONFIRMED after {tried} clusters; late under {found.policy}: {shown}{more}"
    return {
        "price": f"{dollars(usd)} an hour, {dollars(usd * hours_)} for {number(hours_)} hours{at}",
        "simulator": said + _met_again(repetitions),
        "on paper": f"{dollars(found.paper_usd_per_hour)} an hour suffice, if all arrivals were known in advance"
        + _on_paper(repetitions),
        "lower bound": f"{dollars(found.lower_bound_usd_per_hour)} an hour (no cluster of these can cost less)",
    }


def _met_again(repetitions: Sequence[Repetition]) -> str:
    """In how many repetitions every deadline is met too; empty without repetitions."""
    met, samples = sum(not one.late for one in repetitions), len(repetitions)
    return (
        f"; with speeds drawn from the ranges of estimates, in {met} of {samples} repetitions" if samples else ""
    )


def _on_paper(repetitions: Sequence[Repetition]) -> str:
    """The interval of the price on paper, or in how many repetitions none was found; empty if it is no other."""
    if none := sum(one.paper_usd_per_hour is None for one in repetitions):
        return f"; in {none} of the repetitions no cluster was found"
    intervals = _intervals(repetitions)
    low, high = intervals.of["paper_usd_per_hour"] if intervals else (0.0, 0.0)
    return f" ({dollars(low)} - {dollars(high)} in the repetitions)" if dollars(low) != dollars(high) else ""


def _print_worth(found: Mix, console: Console) -> None:
    table = plain_table()
    table.add_column("one more")
    for heading in ("costs\n($/hour)", "saves\n($/hour)", "saves at\nthe peak"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for one in found.worth:
        figures = (one.price_usd_per_hour, one.worth_usd_per_hour, one.peak_usd_per_hour)
        cheaper = f": {dollars(one.whole_usd_per_hour)} an hour less" if one.whole_usd_per_hour else ""
        table.add_row(policy_cell(one.accelerator), *map(dollars, figures), one.verdict + cheaper)
    console.print(table)
    console.print(
        "Saved by one more device in the lower bound, which allows parts of instances; the first table has the "
        "mix itself. buy: one instance more than --max-devices allows makes the cluster on paper cheaper; "
        "break-even: a device is worth its price, but no further instance makes it cheaper; rent: it is worth its "
        "price in some hours; drop: never.",
        style="dim",
    )
