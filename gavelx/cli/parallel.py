"""Run several policies at a time, in processes of their own, with progress.

Processes are spawned, not forked: nothing of the parent (threads of the progress display, state of a solver) leaks
into a run, so one worker and many give the same results. A single worker runs in this process. A failure of one
policy, or the death of its process, does not affect the others.

Where speeds are estimated, each policy runs again with speeds drawn from their ranges, and its result gets the
intervals of its figures. Runs of one sample have the same speeds, so that policies are compared on equal terms.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, cast

from gavelx.cli.cores import cores
from gavelx.cli.failures import Failed, portable, print_traceback
from gavelx.cli.intervals import USAGE, intervals_of
from gavelx.cli.scenario import Scenario
from gavelx.cli.stopping import stoppable
from gavelx.errors import GavelxError
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.solvers import using

Watch = Callable[[int, int, int], None]
"""Called with the policy's position, its completed jobs, and its total jobs."""
Outcome = Result | Failed
Summary = dict[str, Any]
"""The figures of a run with sampled speeds, by name."""
Ended = Callable[[int, Outcome], None]
"""Called with the policy's position and its outcome, as soon as it is known."""
Report = tuple[int, int] | Outcome | Summary
"""Message of a worker about its run: completed and total jobs, or at the end the outcome."""


class Run(NamedTuple):
    """A policy to run, with the speeds of this sample; sample 0 has the speeds in the middle."""

    position: int
    text: str
    sample: int = 0


LOST = "a worker process ended without an answer; it may have run out of memory. Try: --workers 1"


def raise_failure(_position: int, outcome: Outcome) -> None:
    """Raise the exception of the policy, if it failed."""
    if isinstance(outcome, Failed):
        raise outcome.error


def run_policies(
    policies: Sequence[str],
    scenario: Scenario,
    watch: Watch,
    workers: int | None = None,
    ended: Ended = raise_failure,
) -> list[Result]:
    """The results of the policies that did not fail, in their order, for any number of workers.

    ``ended`` is called for each policy, also if it failed. By default, the exception of the first failing policy
    is raised, with a note that names the policy. ``watch`` hears of repetitions with sampled speeds, all of them
    together, under the position after the last policy.
    """
    outcomes: dict[int, Outcome] = {}
    figures: dict[Run, Summary] = {}
    samples = range(1, scenario.speed_samples + 1)
    runs = [Run(position, text, sample) for sample in (0, *samples) for position, text in enumerate(policies)]
    repeated = 0

    def end(run: Run, outcome: Outcome | Summary) -> None:
        nonlocal repeated
        if run.sample:
            repeated += 1
            watch(len(policies), repeated, len(samples) * len(policies))
            if isinstance(outcome, dict):
                figures[run] = outcome
        else:
            assert not isinstance(outcome, dict)
            outcomes[run.position] = outcome
            ended(run.position, outcome)

    workers = min(workers or cores(), len(runs))
    if workers == 1:
        for run in runs:
            end(run, _outcome(run, scenario, watch))
    else:
        _run_in_workers(runs, scenario, watch, workers, end)
    results = {position: one for position, one in sorted(outcomes.items()) if isinstance(one, Result)}
    intervals = intervals_of({(run.position, run.sample): summary for run, summary in figures.items()})
    return [replace(result, intervals=intervals.get(position)) for position, result in results.items()]


def run_policy(run: Run, scenario: Scenario, watch: Watch) -> Result:
    """Simulate one policy, and call ``watch`` each time that a job completes."""
    last = -1

    def on_progress(completed: int, total: int) -> None:
        nonlocal last
        if completed != last:
            last = completed
            if not run.sample:
                watch(run.position, completed, total)

    s, text = scenario.drawn(run.sample), run.text
    try:
        with stoppable(text) as policy, using(s.settings):
            result = simulate(
                policy,
                s.jobs,
                s.cluster,
                s.throughputs,
                s.prices,
                rules=s.rules,
                window=s.window,
                faults=s.faults,
                price_changes=s.price_changes,
                capacities=s.capacities,
                on_progress=on_progress,
                believed=s.believed(policy.opens),
                lengths=s.lengths,
            )
        return replace(result, policy=text.strip())  # show the policy as the user typed it
    except GavelxError as error:
        error.add_note(f"while running {text}")
        raise


def _outcome(run: Run, scenario: Scenario, watch: Watch) -> Outcome | Summary:
    try:
        result = run_policy(run, scenario, watch)
        return result.summary() | {USAGE: result.usage()} if run.sample else result
    except Exception as error:
        return Failed(run.text, error)


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process that runs one policy after another."""

    process: SpawnProcess
    pipe: Connection

    @staticmethod
    def started() -> "_Worker":
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,))
        with _held_back():
            process.start()
        theirs.close()
        return _Worker(process, pipe)

    def tell(self, message: Scenario | Run) -> None:
        """Send a message; a process that has ended takes none, and :meth:`heard` says so."""
        with suppress(OSError):
            self.pipe.send(message)

    def heard(self) -> Report | None:
        """The next message of the worker; None if its process has ended."""
        with suppress(EOFError, OSError):
            return cast("Report", self.pipe.recv())
        return None

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


@contextmanager
def _held_back() -> Iterator[None]:
    """Ctrl-C waits until this is over; in a process that is started here, until it lets it in. Not on Windows."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start lets Ctrl-C in
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _run_in_workers(
    runs: Sequence[Run],
    scenario: Scenario,
    watch: Watch,
    workers: int,
    end: Callable[[Run, Outcome | Summary], None],
) -> None:
    """Give runs to workers, and read their messages until all have ended."""
    waiting, idle = deque(runs), list[_Worker]()
    busy: dict[object, tuple[_Worker, Run]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                if not idle:
                    idle.append(_Worker.started())
                    idle[-1].tell(scenario)
                worker, question = idle.pop(), waiting.popleft()
                busy[worker.pipe] = worker, question
                worker.tell(question)
            for pipe in wait([worker.pipe for worker, _ in busy.values()]):
                worker, run = busy[pipe]
                report = worker.heard()
                if isinstance(report, tuple):
                    watch(run.position, *report)
                    continue
                if report is None:
                    report = Failed(run.text, GavelxError(LOST))
                    worker.stop()
                else:
                    idle.append(worker)
                del busy[pipe]
                end(run, report)
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.stop()


# -- in a worker ----------------------------------------------------------------------------------------------


def _work(pipe: Connection) -> None:
    """Take a scenario, then run the policies that the parent sends, until it closes the pipe.

    Ctrl-C, which a terminal sends to every process, ends it at once without a message: the parent prints one.
    While the process is being imported it would write a traceback, so it waits until here.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout = sys.stderr  # what a user's policy prints
    with suppress(EOFError, OSError):
        scenario: Scenario = pipe.recv()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while True:
            run: Run = pipe.recv()
            outcome = _outcome(run, scenario, lambda _, *jobs: pipe.send(jobs))
            if isinstance(outcome, Failed):
                if not run.sample:
                    print_traceback(outcome.error)
                outcome = replace(outcome, error=portable(outcome.error))
            pipe.send(outcome)


def _end_with_parent() -> None:
    """End when the command was killed: a run may take hours, and nothing waits for its result."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
