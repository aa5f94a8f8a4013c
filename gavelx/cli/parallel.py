"""Run several policies at a time, each in a process of its own, and watch how far they are.

Processes are spawned, not forked: nothing of the parent (threads of the progress display, state of a solver) leaks
into a run, so one worker and many give the same results. A single worker runs here, without any process.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.queues import SimpleQueue

from gavelx.cli.scenario import Scenario
from gavelx.cli.stopping import stoppable
from gavelx.errors import GavelxError
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.solvers import using

Watch = Callable[[int, int, int], None]
"""Called with the policy's position, its jobs completed, and its jobs in all."""

_reports: "SimpleQueue[tuple[int, int, int]] | None" = None
_POLL_S = 0.1


def run_policies(
    policies: Sequence[str], scenario: Scenario, watch: Watch, workers: int | None = None
) -> list[Result]:
    """The result of each policy, in the order of ``policies``, whatever the number of workers.

    Raises what the first failing policy raised, with a note that names it.
    """
    workers = min(workers or os.cpu_count() or 1, len(policies))
    if workers == 1:
        return [run_policy(i, text, scenario, watch) for i, text in enumerate(policies)]
    spawn = multiprocessing.get_context("spawn")
    reports: SimpleQueue[tuple[int, int, int]] = spawn.SimpleQueue()
    with ProcessPoolExecutor(workers, spawn, initializer=_start_worker, initargs=(reports,)) as pool:
        try:
            runs = [pool.submit(_run_in_worker, i, text, scenario) for i, text in enumerate(policies)]
            return _collect(runs, reports, watch)
        except BaseException:
            # Ctrl-C, or a policy that failed: nobody waits for the others.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


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


def _start_worker(reports: "SimpleQueue[tuple[int, int, int]]") -> None:
    """Die at once and silently of Ctrl-C, which a terminal sends to every process: the parent speaks for all."""
    global _reports  # noqa: PLW0603  (a queue can only be handed to a worker at its start)
    _reports = reports
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run_in_worker(position: int, text: str, scenario: Scenario) -> Result:
    def watch(position: int, completed: int, total: int) -> None:
        assert _reports is not None
        _reports.put((position, completed, total))

    return run_policy(position, text, scenario, watch)


def _collect(
    runs: "Sequence[Future[Result]]", reports: "SimpleQueue[tuple[int, int, int]]", watch: Watch
) -> list[Result]:
    pending = set(runs)
    while pending:
        done, pending = wait(pending, timeout=_POLL_S)
        while not reports.empty():
            watch(*reports.get())
        for run in runs:
            if run in done:
                _raise_failure(run)
    return [run.result() for run in runs]


def _raise_failure(run: "Future[Result]") -> None:
    try:
        run.result()
    except BrokenProcessPool as error:
        raise GavelxError(
            "a worker process ended without an answer; it may have run out of memory. Try: --workers 1"
        ) from error
