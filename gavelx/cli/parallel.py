"""Run several policies at a time, in processes of their own, and watch how far they are.

Processes are spawned, not forked: nothing of the parent (threads of the progress display, state of a solver) leaks
into a run, so one worker and many give the same results. A single worker runs here, without any process. What goes
wrong with one policy, be it that its process ends, is no matter of the others.
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
"""Called with the policy's position, its jobs completed, and its jobs in all."""
Outcome = Result | Failed
Ended = Callable[[int, Outcome], None]
"""Called with the policy's position and what came of it, as soon as that is known."""
Report = tuple[int, int] | Outcome
"""What a worker says of the policy that it runs: jobs completed and in all; at the end, what came of it."""
LOST = "a worker process ended without an answer; it may have run out of memory. Try: --workers 1"


def raise_failure(_position: int, outcome: Outcome) -> None:
    """Raise what the policy raised, if it failed."""
    if isinstance(outcome, Failed):
        raise outcome.error


def run_policies(
    policies: Sequence[str],
    scenario: Scenario,
    watch: Watch,
    workers: int | None = None,
    ended: Ended = raise_failure,
) -> list[Result]:
    """The result of each policy that ran to its end, in their order, whatever the number of workers.

    ``ended`` hears of each one, also of those that fail. Without it, what the first failing policy raised is
    raised, with a note that names it.
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
    """Simulate one policy, telling ``watch`` each time that a job has completed."""
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
            )
        return replace(result, policy=text.strip())  # what the user typed is what he looks for
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
        """What it says next; None if it is gone."""
        with suppress(EOFError, OSError):
            return cast("Report", self.pipe.recv())
        return None

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def _run_in_workers(policies: Sequence[str], scenario: Scenario, watch: Watch, workers: int, end: Ended) -> None:
    """Hand out policies to workers, and listen to them until all have ended."""
    waiting, idle = deque(enumerate(policies)), [_Worker.started(scenario) for _ in range(workers)]
    busy: dict[object, tuple[_Worker, int]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, question = idle.pop() if idle else _Worker.started(scenario), waiting.popleft()
                busy[worker.pipe] = worker, question[0]
                with suppress(OSError):  # it is gone, which is heard below
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
    """Run what is asked for until nobody asks any more.

    It dies at once and silently of Ctrl-C, which a terminal sends to every process: the parent speaks for all.
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
