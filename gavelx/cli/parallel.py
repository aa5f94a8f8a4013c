"""Run several policies at a time, in processes of their own, with progress.

Processes are spawned, not forked: nothing of the parent (threads of the progress display, state of a solver) leaks
into a run, so one worker and many give the same results. A single worker runs in this process. A failure of one
policy, or the death of its process, does not affect the others.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import cast

from gavelx.cli.failures import Failed, portable, print_traceback
from gavelx.cli.scenario import Scenario
from gavelx.cli.stopping import stoppable
from gavelx.errors import GavelxError
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.solvers import using

Watch = Callable[[int, int, int], None]
"""Called with the policy's position, its completed jobs, and its total jobs."""
Outcome = Result | Failed
Ended = Callable[[int, Outcome], None]
"""Called with the policy's position and its outcome, as soon as it is known."""
Report = tuple[int, int] | Outcome
"""Message of a worker about its policy: completed and total jobs, or at the end the outcome."""
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
    is raised, with a note that names the policy.
    """
    outcomes: dict[int, Outcome] = {}

    def end(position: int, outcome: Outcome) -> None:
        outcomes[position] = outcome
        ended(position, outcome)

    workers = min(workers or os.cpu_count() or 1, len(policies))
    if workers == 1:
        for position, text in enumerate(policies):
            end(position, _outcome(position, text, scenario, watch))
    else:
        _run_in_workers(policies, scenario, watch, workers, end)
    return [outcome for _, outcome in sorted(outcomes.items()) if isinstance(outcome, Result)]


def run_policy(position: int, text: str, scenario: Scenario, watch: Watch) -> Result:
    """Simulate one policy, and call ``watch`` each time that a job completes."""
    last = -1

    def on_progress(completed: int, total: int) -> None:
        nonlocal last
        if completed != last:
            last = completed
            watch(position, completed, total)

    s = scenario
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


def _outcome(position: int, text: str, scenario: Scenario, watch: Watch) -> Outcome:
    try:
        return run_policy(position, text, scenario, watch)
    except Exception as error:
        return Failed(text, error)


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process that runs one policy after another."""

    process: SpawnProcess
    pipe: Connection

    @staticmethod
    def started(scenario: Scenario) -> "_Worker":
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, scenario))
        process.start()
        theirs.close()
        return _Worker(process, pipe)

    def heard(self) -> Report | None:
        """The next message of the worker; None if its process has ended."""
        with suppress(EOFError, OSError):
            return cast("Report", self.pipe.recv())
        return None

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _run_in_workers(policies: Sequence[str], scenario: Scenario, watch: Watch, workers: int, end: Ended) -> None:
    """Give policies to workers, and read their messages until all have ended."""
    waiting, idle = deque(enumerate(policies)), [_Worker.started(scenario) for _ in range(workers)]
    busy: dict[object, tuple[_Worker, int]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, question = idle.pop() if idle else _Worker.started(scenario), waiting.popleft()
                busy[worker.pipe] = worker, question[0]
                with suppress(OSError):  # its process has ended, which is handled below
                    worker.pipe.send(question)
            for pipe in wait([worker.pipe for worker, _ in busy.values()]):
                worker, position = busy[pipe]
                report = worker.heard()
                if isinstance(report, tuple):
                    watch(position, *report)
                    continue
                if report is None:
                    report = Failed(policies[position], GavelxError(LOST))
                    worker.stop()
                else:
                    idle.append(worker)
                del busy[pipe]
                end(position, report)
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.stop()


# -- in a worker ----------------------------------------------------------------------------------------------


def _work(pipe: Connection, scenario: Scenario) -> None:
    """Run the policies that the parent sends, until it closes the pipe.

    Ctrl-C, which a terminal sends to every process, ends it at once without a message: the parent prints one.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(EOFError, OSError):
        while True:
            position, text = pipe.recv()
            outcome = _outcome(position, text, scenario, lambda _, *jobs: pipe.send(jobs))
            if isinstance(outcome, Failed):
                print_traceback(outcome.error)
                outcome = replace(outcome, error=portable(outcome.error))
            pipe.send(outcome)
