"""Progress on stderr: a bar for each policy, with its completed jobs; nothing if stderr is not a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gavelx.cli.output import stderr
from gavelx.cli.parallel import Watch
from gavelx.cli.tables import policy_cell


@contextmanager
def progress_bars(
    policies: Sequence[str], jobs_total: int, repetitions: int = 0
) -> Iterator[tuple[Watch, Callable[[str], None]]]:
    """Show a bar for each policy; yield a function that moves them, and one that prints a line above them.

    Repetitions with sampled speeds, if any, have one bar together.
    """
    console = stderr()
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks = [bars.add_task(policy_cell(policy), total=jobs_total, unit="jobs") for policy in policies]
    if repetitions:
        tasks.append(bars.add_task("again, with sampled speeds", total=repetitions, unit="runs"))

    def watch(position: int, completed: int, total: int) -> None:
        bars.update(tasks[position], completed=completed, total=total)

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    with bars if console.is_terminal else nullcontext():
        yield watch, say


@contextmanager
def reading(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while something is read; yield a function that hears how much was read, and of how much."""
    console = stderr()
    columns = TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what)
    with bar if console.is_terminal else nullcontext():
        yield lambda done, total: bar.update(task, completed=done, total=total)
