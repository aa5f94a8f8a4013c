"""What both commits do. It runs in the environment of each, so it uses only what both have.

python cases.py CASE         prints the processor-seconds of the case, those of them in which a policy answered,
                             and a digest of the answer, as JSON
"""

import contextlib
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TYPES = ("v100", "p100", "k80")
answering_s: list[float] = []
"""Processor time of each answer of a policy in a simulation."""
COMMAND = "import sys; from gavelx.cli import main; sys.exit(main())"


def rounds(policy: str, rules: str) -> Callable[[], Any]:
    """The published simulator's own case: 40 jobs on 5 devices of each type, to the end."""
    return _simulation(policy, 40, 5, rules)


def live(policy: str, jobs: int) -> Callable[[], Any]:
    """Sixty rounds of so many jobs at once, four to a device, after three that are not timed."""
    from benchmarks.simulation import Rounds
    from gavelx.cluster import Cluster
    from gavelx.drive import drive
    from gavelx.mechanism import DEFAULT, Mechanism
    from gavelx.simulator.backend import SimulatedCluster
    from gavelx.simulator.random_jobs import random_jobs

    table, cluster, asked = _table(), Cluster.of(dict.fromkeys(TYPES, jobs // 12)), _timed(policy)
    mechanism = Mechanism(table, rules=DEFAULT)
    backend = SimulatedCluster(random_jobs(jobs, table, seed=0), cluster, table)
    drive(mechanism, asked.allocate, Rounds(backend, mechanism, 3))

    def run() -> Any:
        drive(mechanism, asked.allocate, Rounds(backend, mechanism, 63))
        return np.array([mechanism.rounds, backend.now_s])

    return run


def trace(jobs: int, each: int) -> Callable[[], Any]:
    """So many jobs on so many devices of each type, as they come, least attained service."""
    from gavelx.simulator.random_jobs import draw_jobs

    draw = draw_jobs(_table(), arrival_rate_per_hour=0.03 * 3 * each, seed=0)
    return _simulation("max_min_fairness", [next(draw) for _ in range(jobs)], each, "default")


def _simulation(policy: str, jobs: Any, each: int, rules: str) -> Callable[[], Any]:
    from gavelx.cluster import Cluster
    from gavelx.simulator import simulate
    from gavelx.simulator.random_jobs import random_jobs

    try:
        from gavelx.published import RULES
    except ImportError:
        from gavelx.mechanism import RULES
    table, cluster = _table(), Cluster.of(dict.fromkeys(TYPES, each), 1)
    jobs = random_jobs(jobs, table, seed=0) if isinstance(jobs, int) else jobs
    simulate(_timed(policy), jobs[:3], cluster, table, rules=RULES[rules])  # imports, and what is made once
    return lambda: simulate(_timed(policy), jobs, cluster, table, rules=RULES[rules]).jct_s_J


def _timed(policy: str) -> Any:
    """The policy, which notes how long each of its answers takes."""
    from gavelx.policies import load_policy

    asked = load_policy(policy)
    answer = asked.allocate

    def allocate(snapshot: Any) -> Any:
        started_s = _seconds()
        try:
            return answer(snapshot)
        finally:
            answering_s.append(_seconds() - started_s)

    object.__setattr__(asked, "allocate", allocate)  # policies are frozen
    return asked


def _table() -> Any:
    from gavelx.files.throughput_tables import load_throughputs

    return load_throughputs("simulation")


def allocation(policy: str, jobs: int, types: int) -> Callable[[], Any]:
    """One allocation of jobs that all differ. Optimal rows need not be unique, so the objective is compared."""
    from benchmarks.instances import all_distinct, snapshot_of
    from gavelx.policies import load_policy

    load_policy(policy).allocate(snapshot_of(all_distinct(32, seed=0, types=types)))
    snapshot, asked = snapshot_of(all_distinct(jobs, seed=1, types=types)), load_policy(policy)
    return lambda: _worth(asked.allocate(snapshot))


def one_more_job(policy: str, jobs: int, types: int) -> Callable[[], Any]:
    """A job joins those for which the same policy has just answered, with what it remembers, if it does."""
    from benchmarks.instances import all_distinct, snapshot_of
    from gavelx.policies import load_policy

    every, asked = all_distinct(jobs + 1, seed=1, types=types), load_policy(policy)
    before = asked.allocate(snapshot_of(every.where(np.arange(jobs + 1) < jobs)))
    memory = getattr(before, "memory", None)
    snapshot = snapshot_of(every) if memory is None else snapshot_of(every).replace(memory=memory)
    return lambda: _worth(asked.allocate(snapshot))


def _worth(allocation: Any) -> float:
    """Its objective; the product of speeds of a policy that has none (as the logarithm)."""
    objective = allocation.certificate.objective
    return float(np.log(allocation.throughput_J).sum() if objective is None else objective)


def command(jobs: int) -> Callable[[], Any]:
    """``gavelx allocate`` of a snapshot of so many jobs, from start to exit, once its modules are compiled."""
    from benchmarks.instances import real_table, snapshot_of
    from gavelx.files.snapshots import write_snapshot

    path = Path(tempfile.mkdtemp()) / "snapshot.json"
    write_snapshot(path, snapshot_of(real_table(jobs, seed=1)))
    options = ["allocate", "--policy", "max_min_fairness", "--snapshot", str(path), "--json", "-"]
    text = [sys.executable, "-c", COMMAND, *options]

    def run() -> Any:
        answer = json.loads(subprocess.run(text, check=True, capture_output=True).stdout)
        return answer["certificate"]["objective"]

    run()
    return run


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    **{
        f"rounds of 40, {policy}, {rules}": lambda policy=policy, rules=rules: rounds(policy, rules)
        for rules in ("default", "published")
        for policy in ("max_min_fairness", "finish_time_fairness", "fifo")
    },
    "60 rounds of 1,000 live, max_min_fairness": lambda: live("max_min_fairness", 1000),
    "60 rounds of 1,000 live, fifo": lambda: live("fifo", 1000),
    "10,000 jobs on 200 devices, max_min_fairness": lambda: trace(10_000, 66),
    "6,000 jobs on 1,998 devices, max_min_fairness": lambda: trace(6000, 666),
    "one job joins 10,000 x 8, max_min_fairness": lambda: one_more_job("max_min_fairness", 10_000, 8),
    "makespan, 4,096 x 8": lambda: allocation("makespan", 4096, 8),
    "max_sum_throughput, 4,096 x 12": lambda: allocation("max_sum_throughput", 4096, 12),
    "nash_welfare, 2,048 x 12": lambda: allocation("nash_welfare", 2048, 12),
    "strategy_proof, 64 x 3": lambda: allocation("strategy_proof", 64, 3),
    "strategy_proof, 256 x 12": lambda: allocation("strategy_proof", 256, 12),
    "gavelx allocate, 4,096 jobs": lambda: command(4096),
}


def _digest(answer: Any) -> str:
    """Six digits of an objective; of an array, a hash of every bit."""
    if isinstance(answer, float):
        return f"{answer:.6g}"
    return hashlib.sha256(np.ascontiguousarray(answer).tobytes()).hexdigest()[:12]


def _seconds() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    run = CASES[sys.argv[1]]()
    with contextlib.redirect_stdout(sys.stderr):
        answering_s.clear()
        started_s = _seconds()
        answer = run()
        seconds = _seconds() - started_s
    print(json.dumps({"seconds": seconds, "answering_s": sum(answering_s), "answer": _digest(answer)}))


if __name__ == "__main__":
    main()
