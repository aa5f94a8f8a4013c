"""Simulate the points that are not done yet, some at a time, and say how far that is."""

import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import NamedTuple

from experiments.points import Limits, Point, Record, measure
from experiments.store import Store
from gavelx.published import AnyRules


class Task(NamedTuple):
    """A point, and the rules that its name of rules stands for."""

    point: Point
    rules: AnyRules


class Outcome(NamedTuple):
    """What came of a task: a record, or the reason why there is none."""

    point: Point
    record: Record | None
    failure: str = ""


def run(tasks: Sequence[Task], store: Store, limits: Limits, processes: int) -> list[Outcome]:
    """Run what the store does not have; seeds in turn, so that the first results are a picture of all.

    Every finished point is in the store before the next one is reported. Returns the outcomes that failed: those
    points stay undone and are tried again the next time.
    """
    by_point = {task.point: task for task in tasks}
    todo = [task for task in by_point.values() if not store.has(task.point, limits)]
    todo.sort(key=lambda task: task.point.seed)
    say(f"{len(todo)} points to do, {len(by_point) - len(todo)} done before")
    forecast, failed = Forecast(store, todo, processes), []
    for number, outcome in enumerate(_outcomes(todo, limits, processes), 1):
        if outcome.record is None:
            failed.append(outcome)
        else:
            store.add(outcome.record)
        forecast.note(outcome)
        say(f"[{number}/{len(todo)}] {outcome.point}: {_in_short(outcome)}; {forecast}")
    return failed


def _outcomes(tasks: Sequence[Task], limits: Limits, processes: int) -> Iterator[Outcome]:
    """Outcomes as they come. One process is this one; more are spawned, so that nothing of this one leaks in."""
    if processes == 1:
        yield from (_outcome(task, limits) for task in tasks)
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))
    try:
        for done in as_completed([pool.submit(_outcome, task, limits) for task in tasks]):
            yield done.result()
    except BaseException:  # Ctrl-C: nobody waits for the points that have begun
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _outcome(task: Task, limits: Limits) -> Outcome:
    try:
        return Outcome(task.point, measure(task.point, task.rules, limits))
    except Exception as error:  # one point that fails must not end the others
        return Outcome(task.point, None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


class Forecast:
    """How long the rest will take, from what points alike took."""

    def __init__(self, store: Store, todo: Sequence[Task], processes: int) -> None:
        self.processes, self.left = processes, {task.point for task in todo}
        self.wall_s: dict[Point, list[float]] = {}
        for _, record in store:
            self._learn(record)

    def note(self, outcome: Outcome) -> None:
        self.left.discard(outcome.point)
        if outcome.record is not None:
            self._learn(outcome.record)

    def _learn(self, record: Record) -> None:
        point = Point.from_json(record["point"])
        self.wall_s.setdefault(replace(point, seed=0), []).append(record["wall_seconds"])

    def __str__(self) -> str:
        known = [seconds for alike in self.wall_s.values() for seconds in alike]
        if not known:
            return "time left unknown"
        mean_s = sum(known) / len(known)
        alike = [self.wall_s.get(replace(point, seed=0), [mean_s]) for point in self.left]
        left_s = sum(sum(seconds) / len(seconds) for seconds in alike) / self.processes
        return f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left"


def _in_short(outcome: Outcome) -> str:
    record = outcome.record
    if record is None:
        return f"FAILED, {outcome.failure}"
    done = f"{record['jobs_completed']}/{record['jobs_total']} jobs, {record['wall_seconds']:.1f} s"
    if record["stopped"]:
        return f"stopped at {record['stopped']}, {done}"
    return f"mean completion {(record['jct_mean_s'] or 0.0) / 3600:.2f} h, {done}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
