"""``gavelx allocate --explain``: what limits each job, the value of one more device, and three properties.

Legend: J jobs, A accelerator types.
"""

import math
from collections.abc import Iterator

from rich.console import Console

from gavelx.cli.tables import plain_table, policy_cell
from gavelx.explain.explanation import EFFICIENT, Explanation
from gavelx.report.words import NOTHING, dollars, number

GEOMETRIC_MEAN = "geometric mean"
"""What a change of an objective that is a sum of logarithms is told of."""
ALL_SHOWN = 40
"""Up to this number, all jobs are listed ..."""
WORST_SHOWN = 20
"""... of more, only this number of the worst off."""


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print types, jobs, and the three properties, each as a table or a line."""
    console.print()
    _print_types(explanation, console)
    console.print()
    _print_jobs(explanation, console)
    console.print()
    table = plain_table(show_header=False)
    for name, text in _properties(explanation):
        table.add_row(name, policy_cell(text))
    console.print(table)


def _print_types(explanation: Explanation, console: Console) -> None:
    snapshot, reasons = explanation.allocation.snapshot, explanation.reasons
    worth, priced = explanation.one_more_device, explanation.usd_per_percent
    table = plain_table()
    table.add_column("accelerator", overflow="fold")
    table.add_column("devices in use", justify="right")
    table.add_column("")
    if worth:
        what = "objective" if explanation.allocation.certificate.log_weight is None else GEOMETRIC_MEAN
        table.add_column(f"one more would change the {what} by", justify="right")
    if priced:
        table.add_column("$/hour per 1%", justify="right")
    for a, name in enumerate(snapshot.accelerators):
        state = "idle" if reasons.idle_A[a] else "full" if reasons.full_A[a] and snapshot.devices_A[a] else ""
        row = [policy_cell(name), f"{number(reasons.in_use_A[a])} of {snapshot.devices_A[a]}", state]
        row += [_change(worth[name])] if worth else []
        row += [dollars(priced[name]) if name in priced else NOTHING] if priced else []
        table.add_row(*row)
    console.print(table)
    if worth and explanation.allocation.certificate.log_weight is not None:
        of = "of the values in these: of speeds, under nash_welfare"
        console.print(f"The objective is a sum of logarithms; the {GEOMETRIC_MEAN} is {of}.", style="dim")
    if worth and reasons.full_A.any() and all(_change(part) == _change(0.0) for part in worth.values()):
        more = "One more device leaves the objective as it is, but a job that wants a full type may run faster."
        console.print(more, style="dim")


def _change(part: float) -> str:
    """A relative change of the objective; the marginal value bounds the gain from a whole device."""
    return "nothing" if abs(part) <= EFFICIENT else f"at most {signed(part)}"


def _print_jobs(explanation: Explanation, console: Console) -> None:
    jobs, reasons = explanation.allocation.snapshot.jobs, explanation.reasons
    order = range(len(jobs)) if len(jobs) <= ALL_SHOWN else explanation.worst_first_J[:WORST_SHOWN].tolist()
    table = plain_table()
    for heading in ("job", "share\nof time", "steps/s", "against an\nequal share"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("why no faster", overflow="fold")
    for j in order:
        speed, gain = number(explanation.throughput_J[j]), signed(explanation.gain_J[j])
        reason = policy_cell(explanation.limited_by_J[j])
        table.add_row(str(jobs[j].id), f"{reasons.time_J[j]:.3f}", speed, gain, reason)
    console.print(table)
    if len(order) < len(jobs):
        console.print(
            f"The {len(order)} worst off; {len(jobs) - len(order):,} more jobs are not shown.", style="dim"
        )


def _properties(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield "sharing incentive", _sharing(explanation)
    yield "envy", _envy(explanation)
    yield "Pareto efficient", _pareto(explanation)


def _sharing(explanation: Explanation) -> str:
    jobs, gain_J, worse_J = explanation.allocation.snapshot.jobs, explanation.gain_J, explanation.worse_off_J
    comparable = sum(not math.isnan(gain) for gain in gain_J)
    if not comparable:
        return "no job can run"
    worst = explanation.worst_first_J[0]
    verdict = f"no, {len(worse_J):,} of {comparable:,} jobs are" if len(worse_J) else "yes, no job is"
    heaviest = max(job.weight for job in jobs)
    unequal = all(jobs[j].scale_factor > 1 or jobs[j].weight < heaviest for j in worse_J)
    which = " (each with several devices, or less weight than another)" if len(worse_J) and unequal else ""
    return f"{verdict} below an equal share{which}; worst off: job {jobs[worst].id}, {signed(gain_J[worst])}"


def _envy(explanation: Explanation) -> str:
    jobs, envious_J = explanation.allocation.snapshot.jobs, explanation.envious_J
    if not len(envious_J):
        return "none; no job would run faster with what another holds"
    worst = envious_J[0]
    one, other, envy = jobs[worst], jobs[explanation.envied_J[worst]], explanation.envy_J[worst]
    gain = f", {signed(envy)}" if math.isfinite(envy) else " has nothing and would run"
    weights = f" (weight {other.weight:g}, not {one.weight:g})" if other.weight != one.weight else ""
    worst_case = f"job {one.id}{gain} with what job {other.id} holds{weights}"
    return f"{len(envious_J):,} of {len(jobs):,} jobs; worst: {worst_case}"


def _pareto(explanation: Explanation) -> str:
    if explanation.pareto_slack is None:
        return "unknown; the solver failed"
    if explanation.is_efficient:
        return "yes; no job can run faster without another running slower"
    slack = (
        number(explanation.pareto_slack) if explanation.pareto_slack >= 0.01 else f"{explanation.pareto_slack:.1g}"
    )
    return f"no; jobs could gain {slack} of their top speeds in sum, with none slower"


def signed(part: float) -> str:
    """A relative change in per cent, with its sign; a dash for NaN.

    >>> [signed(part) for part in (0.1234, -0.5, 0.0, 12.5, float("nan"))]
    ['+12.3%', '-50.0%', '+0.0%', '+1,250%', '-']
    """
    if math.isnan(part):
        return NOTHING
    return f"{round(100 * part, 1) + 0.0:+,.1f}%" if abs(part) < 10 else f"{100 * part:+,.0f}%"
