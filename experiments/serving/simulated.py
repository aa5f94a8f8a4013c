"""Devices that inference lends by night, simulated: how many are in use, who leaves, how soon they refill."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.drive import Backend
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism
from gavelx.mechanism.commands import Command, Resize, Stop
from gavelx.mechanism.events import Event, ServerOffers
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.capacity import Capacity, diurnal, servers_left
from gavelx.throughputs import Setting, Throughputs

Floats = NDArray[np.float64]
Figures = dict[str, Any]
DAYS, STEP_S, HOUR_S = 2, 1800.0, 3600.0
SERVERS, PER_SERVER, DEVICE = 16, 8, "v100"
LEAST, MOST, NOISE = 0.25, 1.0, 0.08
"""Of the devices of a server, what is lent when inference needs most and least, and by how much that varies."""
NOTICE_S, ROUND_S = 30.0, 120.0
WIDEST, JOBS, AT_ONCE = 16, 40, 20
FULL = 0.95
"""Of what is lent: devices are filled again when so many are in use."""
COSTS = Overheads(Overhead(checkpoint_s=10.0, restart_s=30.0, resize_s=2.0))


def lent(seed: int) -> list[tuple[float, float]]:
    """The part of each server that is lent, for half an hour on average, over some days: a cosine, and noise.

    Times vary too, since rounds would begin at the very time at which devices are lent again.
    """
    random = np.random.default_rng([seed, 16])
    shares = diurnal(LEAST, MOST, step_s=STEP_S) * DAYS
    drawn = np.clip([share + random.normal(0.0, NOISE) for _, share in shares], LEAST, MOST)
    ends_s = STEP_S * np.arange(1, len(shares) + 1) + np.append(
        random.uniform(-300.0, 300.0, len(shares) - 1), 0.0
    )
    return list(zip(np.diff(ends_s, prepend=0.0).tolist(), drawn.tolist(), strict=True))


def jobs(seed: int) -> tuple[list[Job], Throughputs]:
    """Elastic jobs of hours to days: some are there at once, the others come in the first day."""
    random = np.random.default_rng([seed, 17])
    arrival_s = np.sort(np.where(np.arange(JOBS) < AT_ONCE, 0.0, random.uniform(0.0, 24 * HOUR_S, JOBS)))
    power, hours = random.uniform(0.85, 1.0, JOBS), random.lognormal(np.log(100.0), 0.8, JOBS)
    table = {
        Setting(f"job {j}", DEVICE, n): float(n ** power[j]) for j in range(JOBS) for n in range(1, WIDEST + 1)
    }
    elastic = Elastic("workers", 1, WIDEST, parts=WIDEST)
    asked = random.choice([4, 8, 16], JOBS)
    drawn = [
        Job(j, f"job {j}", float(hours[j]) * HOUR_S, int(asked[j]), arrival_s=float(arrival_s[j]), elastic=elastic)
        for j in range(JOBS)
    ]
    return drawn, Throughputs(table)


@dataclass
class Watched:
    """Counts what follows at once from devices that are taken back."""

    backend: SimulatedCluster
    resized: int = 0
    stopped: int = 0
    back_s: list[float] = field(default_factory=list)  # when devices were lent again
    now_s: float = 0.0
    _takes: bool = False

    def events(self) -> Iterator[Event]:
        lends: dict[int, int] = {}
        for event in self.backend.events():
            self._takes, self.now_s = False, event.time_s
            if isinstance(event, ServerOffers):
                before = lends.get(event.server_id, PER_SERVER)
                self._takes, lends[event.server_id] = event.devices < before, event.devices
                if event.devices > before and self.back_s[-1:] != [event.time_s]:
                    self.back_s.append(event.time_s)
            yield event

    def execute(self, command: Command) -> None:
        self.resized += self._takes and isinstance(command, Resize)
        self.stopped += self._takes and isinstance(command, Stop)
        self.backend.execute(command)

    def post(self, event: Event) -> None:
        self.backend.post(event)


def run(seed: int, policy: str, *, lends: bool) -> Figures:
    """One policy on the jobs of a seed; without lending, jobs have what inference never needs."""
    drawn, table = jobs(seed)
    shares, end_s = lent(seed), DAYS * 24 * HOUR_S
    least = min(servers_left(PER_SERVER, share) for _, share in shares)
    count = PER_SERVER if lends else least
    capacities = [Capacity(DEVICE, [*shares, (1e9, 1.0)], NOTICE_S, of="devices")] if lends else []
    watched: list[Watched] = []

    def watch(_: Mechanism, backend: SimulatedCluster) -> Backend:
        watched.append(Watched(backend))
        return watched[0]

    rules = replace(DEFAULT.with_round(ROUND_S), overheads=COSTS)
    cluster = Cluster.of({DEVICE: SERVERS * count}, count)
    result = simulate(load_policy(policy), drawn, cluster, table, rules=rules, capacities=capacities, watch=watch)
    grid_s = np.arange(0.0, end_s, 10.0)
    time_s_K, busy_KA = result.busy_devices()
    busy = busy_KA[np.searchsorted(time_s_K, grid_s, side="right") - 1, 0]
    step = np.searchsorted(np.cumsum([seconds for seconds, _ in shares]), grid_s, side="right")
    lent_now = SERVERS * np.array([servers_left(PER_SERVER, share) for _, share in shares])[step]
    total = SERVERS * PER_SERVER
    refills = refill_s(grid_s, busy, lent_now, watched[0].back_s)
    return {
        "allocation": float((busy + total - lent_now).mean() / total),
        "jobs_done": float((result.completion_s_J <= end_s).sum()),
        "device_hours": float(busy.mean() * end_s / HOUR_S),
        "failed": float(len(result.unfinished) + len(result.given_up)),
        "preemptions": float(watched[0].resized + watched[0].stopped),
        "stopped": float(watched[0].stopped),
        "lost_device_hours": result.lost_device_s / HOUR_S,
        "refills": float(len(refills)),
        "refill_median_s": float(np.median(refills)) if refills else 0.0,
        "refill_longest_s": max(refills, default=0.0),
        "series": (grid_s, busy, lent_now),
    }


def refill_s(time_s: Floats, busy: Floats, lends: Floats, back_s: Sequence[float]) -> list[float]:
    """For each time at which devices were lent again, how long until almost all that is lent is in use.

    Where that does not come before devices are taken back, it is the time until then.
    """
    found, falls_s = [], time_s[1:][np.diff(lends) < 0]
    for since_s in back_s:
        until_s = min(falls_s[falls_s > since_s], default=np.inf)
        within_s = time_s[(time_s >= since_s) & (time_s < until_s)]
        full_s = time_s[(time_s >= since_s) & (time_s < until_s) & (busy >= FULL * lends)]
        if len(within_s):
            found.append(float((full_s[0] if len(full_s) else within_s[-1]) - since_s))
    return found
