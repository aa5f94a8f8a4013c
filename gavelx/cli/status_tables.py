"""The tables of ``gavelx status`` in any width: columns and texts that do not fit are left out or cut."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console

from gavelx.cli.tables import plain_table, policy_cell
from gavelx.report.words import NOTHING, between, dollars, number, percent, printable, whole_seconds
from gavelx.training_report import silent_words

REASONS_MAX = 20
"""Reasons that are printed at most."""
ENDED = ("complete", "failed", "cancelled")
STATES = {
    "cancelled": ("was cancelled", "were cancelled"),
    "waiting": ("waits", "wait"),
    "running": ("runs", "run"),
    "stopping": ("stops", "stop"),
}
"""Verbs for one job and for several, where the state is not one itself."""
GAP = 3
"""Space between two columns."""


class Column(NamedTuple):
    """A heading and the function that makes its cells.

    ``least``: the number of characters to which a text may be cut; 0: it may not be cut. ``goes``: without room
    for all, the column with the highest number is left out first; 0: it always stays.
    """

    heading: str
    cell: Callable[[Any], str]
    goes: int = 0
    least: int = 0
    right: bool = False


def _where(job: Any) -> str:
    """On how many devices of an elastic job; of another it is as many as it asked for."""
    devices = f"{job.devices} x " if job.elasticity and job.devices else ""
    return ", ".join(job.servers) + (f" ({devices}{job.accelerator})" if job.accelerator else "")


def _steps(job: Any) -> str:
    """Of how many, as its user says, or else as it says itself (~); a dash if the job never reported a step."""
    total, said, done = job.total_steps, job.said_steps, job.steps_done
    if not total and not said:
        return number(done) if done else NOTHING
    return f"{number(done)} of {number(total) if total else f'~{number(said)}'}"


def _elapsed(job: Any) -> str:
    """Time since it was submitted, or from then until it ended."""
    return whole_seconds(job.duration_s if job.state in ENDED else job.submitted_s_ago)


def _left(job: Any) -> str:
    """How much longer it takes, as is believed, where its user did not say."""
    return between(job.left_s, job.left_lower_s, job.left_upper_s) if job.left_s > 0.0 else ""


def _bits(job: Any) -> str:
    """Which bits it keeps; of a job that was to keep none, nothing."""
    promised = job.order or job.determinism != "none"
    return ", ".join(word for word in (job.determinism, job.order) if word) if promised else ""


def _sizes(job: Any) -> str:
    """The share of its time in each size, as it was promised; of a job that is not elastic, nothing."""
    return ", ".join(
        f"{percent(size.share)} on {size.devices} x {size.accelerator}{f' / {size.batch}' if size.batch else ''}"
        for size in job.sizes
    )


def _not_lent(server: Any) -> str:
    kept = server.devices - server.lent
    return f" (keeps {kept})" if kept else ""


JOBS = (
    Column("job", lambda job: str(job.job_id), right=True),
    Column("owner", lambda job: job.owner, goes=3, least=6),
    Column("name", lambda job: job.name, goes=4, least=8),
    Column("type", lambda job: job.job_type, goes=2, least=10),
    Column("state", lambda job: job.state),
    Column("where", _where, goes=1, least=10),
    Column("steps", _steps, right=True),
    Column("elapsed", _elapsed, goes=5, right=True),
    Column("left", _left, goes=6, right=True),
    Column("bits", _bits, goes=11),
    Column("share", lambda job: percent(job.promised_share), goes=7, right=True),
    Column("sizes", _sizes, goes=10, least=12),
    Column("received", lambda job: whole_seconds(job.received_s), goes=8, right=True),
    Column("cost", lambda job: dollars(job.spent_usd), goes=9, right=True),
)
SERVERS = (
    Column("server", lambda server: server.name, least=8),
    Column("accelerator", lambda server: server.accelerator, goes=1, least=6),
    Column("leased", lambda server: f"{server.leased} of {server.lent}" + _not_lent(server)),
    Column("state", lambda server: server.state),
    Column("heard", lambda server: f"{whole_seconds(server.heard_s_ago)} ago", goes=2),
)


def print_rows(console: Console, columns: Sequence[Column], messages: Sequence[Any]) -> None:
    """Print one line for each message, no wider than the console, and an empty line."""
    if not messages:
        return
    cells = {column: [printable(column.cell(message)) for message in messages] for column in columns}
    widths = _widths({column: texts for column, texts in cells.items() if any(texts)}, console.width)
    table = plain_table()
    for column, width in widths.items():
        side = "right" if column.right else "left"
        table.add_column(column.heading, justify=side, width=width, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in zip(*(cells[column] for column in widths), strict=True):
        table.add_row(*map(policy_cell, row))
    console.print(table)
    console.print()


def reasons(jobs: Sequence[Any], servers: Sequence[Any]) -> list[str]:
    """A line for each reason that jobs and servers are as they are, in full; of many, the most frequent ones."""
    ids: dict[tuple[str, str], list[int]] = {}
    for job in jobs:
        if why := _why(job):
            ids.setdefault((job.state, why), []).append(job.job_id)
    often = sorted(ids.items(), key=lambda reason: -len(reason[1]))
    lines = [f"{_who(ids, state)}: {printable(reason)}" for (state, reason), ids in often[:REASONS_MAX]]
    if (left_out := len(often) - REASONS_MAX) > 0:
        lines.append(f"{left_out:,} more reasons: gavelx status JOB says that of one job")
    return lines + [f"{one.name} is {one.state}: {printable(one.reason)}" for one in servers if one.reason]


def _why(job: Any) -> str:
    """Why a job is as it is. Of one that runs: that it makes no step any more, and that it failed before."""
    if job.state not in ("running", "stopping", "complete"):
        return str(job.reason)
    silent = silent_words(job.silent_s, job.usual_step_s) if job.silent_s else ""
    times = "once" if job.failures == 1 else f"{job.failures} times, last"
    failed = f"it failed {times}: {job.reason}" if job.failures and job.state != "complete" else ""
    return "; ".join(filter(None, (silent, failed)))


def _who(ids: Sequence[int], state: str) -> str:
    """Which jobs are in a state.

    >>> _who([4], "waiting"), _who([4, 5, 6], "waiting"), _who([7], "failed")
    ('job 4 waits', 'job 4 and 2 more wait', 'job 7 failed')
    """
    one, more = STATES.get(state, (state, state))
    return f"job {ids[0]} {one}" if len(ids) == 1 else f"job {ids[0]} and {len(ids) - 1} more {more}"


def _widths(cells: dict[Column, list[str]], most: int) -> dict[Column, int]:
    """The columns that fit, with their widths: texts are cut, the longest first, before columns are left out."""
    widths = {
        column: max(cell_len(column.heading), *(cell_len(text) for text in texts))
        for column, texts in cells.items()
    }
    least = {column: min(width, column.least or width) for column, width in widths.items()}
    while sum(least.values()) + GAP * (len(least) - 1) > most and max(column.goes for column in least):
        del least[max(least, key=lambda column: column.goes)]
    widths = {column: widths[column] for column in least}
    while sum(widths.values()) + GAP * (len(widths) - 1) > most:
        longest = max(widths, key=lambda column: widths[column] - least[column])
        if widths[longest] == least[longest]:
            break
        widths[longest] -= 1
    return widths
