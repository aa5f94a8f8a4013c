"""How fast the simulator is: rounds per processor-second, the cost of a round as jobs grow, one very long trace.

    python -m benchmarks.simulation [rounds growth stops trace] [--jobs 100000] [--json OUT]

``stops`` is about a scheduler: how long the mechanism takes for one event, while which a service hears no other.

Times are of this process, in processor-seconds, policy included; each is the best of ``--repeat`` runs. How they
compare with an earlier state of the project is what ``python -m benchmarks.against_commit`` measures, in one run.
"""

import argparse
import gc
import json
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from gavelx.cli.serving import COLLECT_AFTER
from gavelx.cluster import Cluster
from gavelx.drive import drive
from gavelx.files.atomic import write_atomically
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event
from gavelx.policies import load_policy
from gavelx.published import RULES
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.random_jobs import draw_jobs, random_jobs
from gavelx.throughputs import Throughputs

TYPES = ("v100", "p100", "k80")
POLICIES = ("fifo", "allox", "max_min_fairness", "finish_time_fairness")
LIVE = (40, 200, 1000, 5000, 10_000)
WARM, ROUNDS = 3, 60
Row = dict[str, Any]


@dataclass
class Rounds:
    """A simulated cluster that stops after so many rounds."""

    backend: SimulatedCluster
    mechanism: Mechanism
    most: int

    @property
    def now_s(self) -> float:
        return self.backend.now_s

    def events(self) -> Iterator[Event]:
        for event in self.backend.events():
            yield event
            if self.mechanism.rounds >= self.most:
                return

    def execute(self, command: Any) -> None:
        self.backend.execute(command)

    def post(self, event: Event) -> None:
        self.backend.post(event)


def rounds(table: Throughputs, repeat: int) -> list[Row]:
    """The published simulator's own case: 40 jobs on 5 devices of each type, to the end."""
    jobs, cluster = random_jobs(40, table, seed=0), Cluster.of(dict.fromkeys(TYPES, 5), 1)
    rows = []
    for rules in RULES.values():
        for policy in POLICIES:
            results = []

            def run(policy: str = policy, rules: Any = rules, results: list[Any] = results) -> None:
                results.append(simulate(load_policy(policy), jobs, cluster, table, rules=rules))

            seconds, result = best_of(repeat, run), results[-1]
            live_s = sum(jct_s for jct_s in result.jct_s_J)
            rows.append(
                {
                    "case": "rounds",
                    "rules": rules.name,
                    "policy": policy,
                    "rounds": result.rounds,
                    "cpu_seconds": seconds,
                    "rounds_per_s": result.rounds / seconds,
                    "job_rounds_per_s": live_s / rules.round_s / seconds,
                }
            )
    return rows


def growth(table: Throughputs, repeat: int) -> list[Row]:
    """What a round costs with ever more live jobs, four to a device; allocations counted apart."""
    return [_growth(table, count, repeat) for count in LIVE]


def _growth(table: Throughputs, count: int, repeat: int) -> Row:
    jobs = random_jobs(count, table, seed=0)
    cluster = Cluster.of(dict.fromkeys(TYPES, max(1, count // 12)))
    spent, warm = [0.0], [0.0]
    policy = load_policy("max_min_fairness")

    def timed(snapshot: Any) -> Any:
        started = time.process_time()
        allocation = policy.allocate(snapshot)
        spent[0] += time.process_time() - started
        return allocation

    def run() -> None:
        mechanism = Mechanism(table, rules=DEFAULT)
        backend = SimulatedCluster(jobs, cluster, table)
        started = time.process_time()
        drive(mechanism, timed, Rounds(backend, mechanism, WARM))
        warm[0], spent[0] = time.process_time() - started, 0.0
        drive(mechanism, timed, Rounds(backend, mechanism, WARM + ROUNDS))

    seconds = best_of(repeat, run) - warm[0]
    return {
        "case": "growth",
        "live_jobs": count,
        "devices": int(cluster.devices_A.sum()),
        "cpu_ms_per_round": 1e3 * (seconds - spent[0]) / ROUNDS,
        "policy_ms_per_round": 1e3 * spent[0] / ROUNDS,
    }


def stops(table: Throughputs, repeat: int, count: int = 50_000, servers: int = 333) -> list[Row]:
    """The most that one event of each kind takes in 20 rounds of 50,000 live jobs on 999 servers of 8 devices.

    Not in the first round, before which all the jobs come. Garbage is collected as in ``gavelx serve``.
    """
    cluster, policy = Cluster.of(dict.fromkeys(TYPES, servers * 8), 8), load_policy("max_min_fairness")
    jobs, most_ms = random_jobs(count, table, seed=0, multi_gpu=True), dict[str, list[float]]()
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    for _ in range(repeat):
        mechanism, backend = Mechanism(table, rules=DEFAULT), SimulatedCluster(jobs, cluster, table)
        drive(mechanism, policy.allocate, Rounds(backend, mechanism, 1))
        mechanism.handle = _timed(mechanism.handle, most := dict[str, float]())  # type: ignore[method-assign]
        drive(mechanism, policy.allocate, Rounds(backend, mechanism, 21))
        for kind, seconds in most.items():
            most_ms.setdefault(kind, []).append(1e3 * seconds)
    gc.set_threshold(*before)
    return [{"case": "stops", "event": kind, "most_cpu_ms": min(each)} for kind, each in most_ms.items()]


def _timed(handle: Callable[[Event], list[Command]], most: dict[str, float]) -> Callable[[Event], list[Command]]:
    """The same, and the most that it ever took for an event of a kind."""

    def timed(event: Event) -> list[Command]:
        started, kind = time.process_time(), type(event).__name__
        commands = handle(event)
        most[kind] = max(most.get(kind, 0.0), time.process_time() - started)
        return commands

    return timed


def trace(table: Throughputs, count: int) -> list[Row]:
    """So many jobs on a fiftieth as many devices, as they come, least attained service, to the end."""
    cluster = Cluster.of(dict.fromkeys(TYPES, max(1, count // 150)))
    devices = int(cluster.devices_A.sum())
    draw = draw_jobs(table, arrival_rate_per_hour=RATE_PER_DEVICE * devices, seed=0)
    jobs: list[Job] = [next(draw) for _ in range(count)]
    started, cpu_s = time.perf_counter(), time.process_time()
    result = simulate(load_policy("max_min_fairness"), jobs, cluster, table)
    return [
        {
            "case": "trace",
            "jobs": count,
            "devices": devices,
            "completed": int((~(result.completion_s_J != result.completion_s_J)).sum()),
            "simulated_h": result.end_s / 3600,
            "utilization": result.utilization,
            "rounds": result.rounds,
            "leases": len(result.leases),
            "wall_seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu_s,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        }
    ]


RATE_PER_DEVICE = 0.03
"""Jobs per hour and device: about as many as the devices can do."""


def best_of(repeat: int, run: Callable[[], None]) -> float:
    """The least processor time of so many runs; one more before them warms up."""
    run()
    times = []
    for _ in range(repeat):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description="how fast rounds pass")
    cases = ("rounds", "growth", "stops", "trace")
    parser.add_argument("case", nargs="*", help=f"some of {', '.join(cases)}; all if none is named")
    parser.add_argument("--jobs", type=int, default=100_000, help="of the long trace")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write every row to this file")
    options = parser.parse_args(arguments)
    table, rows = load_throughputs("simulation"), []
    chosen = options.case or cases
    if "rounds" in chosen:
        rows += rounds(table, options.repeat)
    if "growth" in chosen:
        rows += growth(table, options.repeat)
    if "stops" in chosen:
        rows += stops(table, options.repeat)
    if "trace" in chosen:
        rows += trace(table, options.jobs)
    for row in rows:
        print("  ".join(f"{name} {_short(value)}" for name, value in row.items()))
    if options.json:
        about = {"machine": report.machine(), "rows": rows}
        write_atomically(options.json, json.dumps(about, indent=1) + "\n")
    return 0


def _short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value}"


if __name__ == "__main__":
    raise SystemExit(main())
