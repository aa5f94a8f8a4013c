"""python -m experiments.deployed.emulated: does a trace go on real agents as it goes in the simulator?

The first jobs of a trace are submitted, each at its time, to a real scheduler with a real agent for each server,
whose jobs sleep; and simulated under the same rules. To have it in a minute, time is compressed: arrivals and
rounds are shorter, and steps faster, by one factor. Nothing else differs.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from experiments.deployed.audit import audit
from experiments.deployed.local import DeployedError, LocalCluster, Machine, Progress, positive, run, say
from experiments.deployed.page import markdown, put, this_machine
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, UserError
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.history import History
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_history
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.simulator import simulate
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload

MAKESPAN_WITHIN = 0.02
RANKS_AT_LEAST = 0.95
TIMING = Timing(heartbeat_s=0.5, valid_for_s=10.0, grace_s=1.0)


@dataclass(frozen=True)
class Scene:
    """Jobs on a cluster under a policy, in whatever time."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    policy: str
    table: Throughputs
    prices: Prices
    rules: Rules

    @property
    def configuration(self) -> Configuration:
        return Configuration(self.table, self.prices, self.rules, refine=False)

    def simulated(self) -> Result:
        return simulate(
            load_policy(self.policy), self.jobs, self.cluster, self.table, self.prices, rules=self.rules
        )

    def compressed(self, factor: float) -> "Scene":
        """The same, so many times faster: everything that is a time, and everything that is a speed."""
        rules, table = self.rules, self.table
        return replace(
            self,
            jobs=tuple(replace(job, arrival_s=job.arrival_s / factor) for job in self.jobs),
            table=Throughputs(
                {setting: speed * factor for setting, speed in table.isolated.items()},
                {pairing: speed * factor for pairing, speed in table.colocated.items()},
                table.name,
            ),
            rules=replace(
                rules,
                round_s=rules.round_s / factor,
                min_run_s=rules.min_run_s / factor,
                protect_s=rules.protect_s / factor,
                small_change_s=rules.small_change_s / factor,
                solve_interval_s=rules.solve_interval_s / factor,
            ),
        )


@dataclass(frozen=True)
class Agreement:
    """How near an emulated run came to its simulation; seconds are those of the wall, compressed."""

    policy: str
    jobs: int
    factor: float
    round_s: float
    makespan_simulated_s: float
    makespan_emulated_s: float
    rank_correlation: float
    jct_simulated_s: float
    jct_emulated_s: float
    leases_simulated: int
    leases_emulated: int
    launch_ms: float  # from the scheduler's decision to the job's start, median
    late_s: float = 0.0  # by how much the scheduler was late in all, on a machine with other things to do

    @property
    def makespan_off(self) -> float:
        return self.makespan_emulated_s / self.makespan_simulated_s - 1.0

    @property
    def agrees(self) -> bool:
        return abs(self.makespan_off) <= MAKESPAN_WITHIN and self.rank_correlation >= RANKS_AT_LEAST

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"makespan_off": self.makespan_off, "agrees": self.agrees}


def scene_of(trace: str, jobs: int, cluster: str, policy: str, round_s: float) -> Scene:
    """The first jobs of a trace that can run on this cluster. Raises :class:`UserError`."""
    table, place = load_throughputs("simulation"), Cluster.parse(cluster)
    load_policy(policy)
    some = read_trace(find_trace(trace), table.job_types)[:jobs]
    if not 2 <= jobs <= len(some):
        problem = f"{jobs} jobs of {trace}, which has {len(read_trace(find_trace(trace)))}"
        raise OptionError(problem, where="--jobs", expected="two or more, and no more than there are")
    check_workload(some, place, table, f"trace {trace}")
    first_s = some[0].arrival_s
    some = tuple(replace(job, id=n, arrival_s=job.arrival_s - first_s) for n, job in enumerate(some))
    prices = load_prices("gcp", place.accelerators)
    return Scene(some, place, policy, table, prices, DEFAULT.with_round(round_s))


async def emulate(scene: Scene, folder: Path, within_s: float) -> float:
    """Run a scene on agents whose jobs sleep, and say how late the scheduler was in all.

    Its log is in the folder. Raises :class:`DeployedError`.
    """
    async with LocalCluster(folder, scene.configuration, scene.policy, TIMING) as cluster:
        servers = scene.cluster.servers
        await cluster.join(
            *(Machine(f"{s.accelerator}-{s.id}", s.accelerator, s.device_count, emulate=True) for s in servers)
        )
        progress = Progress(scene.policy, len(scene.jobs))
        waiting = cluster.until_ended(within_s, progress, at_least=len(scene.jobs))
        _, jobs = await asyncio.gather(_submit(cluster, scene.jobs), waiting)
    if bad := [job for job in jobs if job.state != "complete"]:
        raise DeployedError("; ".join(f"job {job.job_id} {job.state}: {job.reason}" for job in bad))
    return cluster.late_s


async def _submit(cluster: LocalCluster, jobs: Sequence[Job]) -> None:
    """Each job at its time; those of one time in one call."""
    begun_s = time.monotonic()
    for arrival_s in sorted({job.arrival_s for job in jobs}):
        await asyncio.sleep(max(0.0, begun_s + arrival_s - time.monotonic()))
        await cluster.submit(*(_spec(job) for job in jobs if job.arrival_s == arrival_s))


def _spec(job: Job) -> wire.JobSpec:
    return wire.JobSpec(
        job_type=job.job_type,
        workers=job.scale_factor,
        total_steps=job.total_steps,
        weight=job.weight,
        slo=job.slo or 0.0,
        duration_s=job.duration_s or 0.0,
        preemptible=job.preemptible,
        command=["true"],
        environment={} if job.checkpoints else {"CHECKPOINTS": "no"},
    )


def agreement(scene: Scene, factor: float, state: State, history: History, late_s: float = 0.0) -> Agreement:
    """Simulate the compressed scene, and lay the recorded run beside it, when its books add up."""
    result = scene.simulated()
    books = audit(history, scene.jobs, scene.cluster.servers, scene.prices, scene.table)
    books.check_bill(sum(known.spent_usd for known in state.jobs.values()))
    began_s = state.jobs[0].job.arrival_s
    simulated_J = result.completion_s_J
    emulated_J = np.array([state.jobs[job.id].ended_s - began_s for job in scene.jobs])
    arrival_J = np.array([job.arrival_s for job in scene.jobs])
    launch_ms = [1e3 * (held.start_s - held.launched_s) for held in history.leases if held.held_s > 0]
    return Agreement(
        policy=scene.policy,
        jobs=len(scene.jobs),
        factor=factor,
        round_s=scene.rules.round_s,
        makespan_simulated_s=float(simulated_J.max()),
        makespan_emulated_s=float(emulated_J.max()),
        rank_correlation=float(spearmanr(simulated_J, emulated_J).statistic),
        jct_simulated_s=float((simulated_J - arrival_J).mean()),
        jct_emulated_s=float((emulated_J - arrival_J).mean()),
        leases_simulated=len(result.leases),
        leases_emulated=len(history.leases),
        launch_ms=float(np.median(launch_ms)),
        late_s=late_s,
    )


def compare(scene: Scene, wall_s: float, folder: Path) -> Agreement:
    """Compress a scene into so many seconds, emulate it, and compare."""
    factor = max(1.0, scene.simulated().end_s / wall_s)
    faster = scene.compressed(factor)
    late_s = run(emulate(faster, folder, within_s=3 * wall_s + 600))
    return agreement(faster, factor, *read_history(str(folder / "log")), late_s)


def table(found: Sequence[Agreement]) -> str:
    """In Markdown."""
    titles = (
        *("policy", "jobs", "compressed", "round, s", "makespan simulated, s", "emulated, s", "off"),
        *(
            "rank correlation",
            "mean JCT simulated, s",
            "emulated, s",
            "leases simulated",
            "emulated",
            "launch, ms",
        ),
    )
    rows = [
        (
            *(f"`{one.policy}`", f"{one.jobs}", f"{one.factor:.0f} x", f"{one.round_s:.2f}"),
            *(f"{one.makespan_simulated_s:.2f}", f"{one.makespan_emulated_s:.2f}", f"{one.makespan_off:+.2%}"),
            *(f"{one.rank_correlation:.4f}", f"{one.jct_simulated_s:.2f}", f"{one.jct_emulated_s:.2f}"),
            *(f"{one.leases_simulated}", f"{one.leases_emulated}", f"{one.launch_ms:.1f}"),
        )
        for one in found
    ]
    return markdown(titles, rows, left=1)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every run agrees, 1 if one does not, 2 for a wrong option."""
    options = _parser().parse_args(argv)
    found = []
    try:
        for policy in options.policies:
            scene = scene_of(options.trace, options.jobs, options.cluster, policy, options.round)
            with tempfile.TemporaryDirectory() as folder:
                found.append(compare(scene, options.wall_s, Path(folder)))
    except UserError as error:
        say(f"error: {error}")
        return 2
    except DeployedError as error:
        say(f"failed: {error}")
        return 1
    if options.json:
        print(json.dumps([one.to_json() for one in found], indent=2))
    else:
        print(table(found))
    if options.write:
        words = sys.argv[1:] if argv is None else argv
        put("emulated", words, table(found) + this_machine(), [one.to_json() for one in found])
    for one in found:
        if not one.agrees:
            bounds = f"{MAKESPAN_WITHIN:.0%} of makespan, a rank correlation of {RANKS_AT_LEAST}"
            say(f"{one.policy} does not agree: expected within {bounds}")
    return 0 if all(one.agrees for one in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.deployed.emulated", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("--trace", default="shockwave_120", help="a trace of gavelx, or a file")
    parser.add_argument("--jobs", type=int, default=30, help="so many jobs of its beginning")
    parser.add_argument("--cluster", default="v100=4,p100=4,k80=4")
    parser.add_argument("--policies", nargs="+", default=["max_min_fairness", "fifo"])
    parser.add_argument("--round", type=positive, default=360.0, help="seconds of a round, before compression")
    parser.add_argument("--wall-s", type=positive, default=75.0, help="seconds that the emulation is to take")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="put table and figures beside this file")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
