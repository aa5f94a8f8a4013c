"""Figures of the moment for Prometheus: how many jobs, servers and devices are how, taken once a second."""

import itertools

import numpy as np
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily

from gavelx.service.loop.event_loop import EventLoop

TEXTS = {
    "jobs_waiting": "Jobs that wait",
    "jobs_running": "Jobs that hold devices",
    "jobs_protected": "Of these, jobs that are not preempted, as they would lose their work",
    "jobs_silent": "Jobs that run, and make no step for much longer than usual: a process may hang",
    "jobs_complete": "Jobs complete, ever",
    "jobs_failed": "Jobs given up because they failed too often, ever",
    "jobs_cancelled": "Jobs cancelled, ever",
    "servers_here": "Servers whose agent is connected",
    "servers_silent": "Servers that are known, not lost and not connected",
    "servers_aside": "Servers that get no leases for a while, as different jobs failed there",
    "devices": "Devices of the servers that take leases",
    "devices_leased": "Of these, devices that a job holds",
    "devices_unpriced": "Of these, devices of types without a known price: what jobs spend there is unknown",
    "rounds": "Rounds so far",
    "lost_seconds": "Time on devices that preemptions have lost, of jobs that saved nothing, ever",
    "most_behind_seconds": "By how much any job ever was behind what it was promised, when a round began",
    "speeds_measured": "Ways to run of which leases have told the speed often enough to be believed",
    "speeds_wrong": "Of these, ways of which the table says another speed",
    "speeds_drifts": "How often a measured speed became another one, ever",
    "speeds_rejected": "Leases of which no speed could be had, since the service began",
    "log_sequence": "Records in the log",
    "log_failures": "Writes to the log that failed, since the service began",
    "log_failing": "1 while the log cannot be written: submissions are refused, leases that stand are renewed",
    "calls_pending": "Calls and events that wait to be written to the log",
    "solver_answers": "SolveTrigger to the policy that were answered, since the service began",
    "solver_seconds": "How long the last answer of the policy took",
    "solver_failures": "Of the answers, those in which the previous allocation stood in for the policy",
    "solver_restarts": "How often the solver's process was started again",
}


class Gauges:
    """``look`` takes the figures; another thread, which reads them, sees all of one look."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._values: dict[str, float] = dict.fromkeys(TEXTS, 0.0)
        registry.register(self)

    def collect(self) -> list[Metric]:
        """For the registry."""
        values = self._values
        return [GaugeMetricFamily(f"gavelx_{name}", text, values[name]) for name, text in TEXTS.items()]

    def look(self, scheduler: EventLoop) -> None:
        """Take the figures of this moment."""
        state, solver = scheduler.state, scheduler.solver
        mechanism = state.mechanism
        running = mechanism.running()
        here = sum(session.stream is not None for session in scheduler.agents.here.values())
        of_type, prices = mechanism.devices(), mechanism.accounts.prices
        unpriced_A = np.isnan(prices.array(list(of_type)))
        devices = sum(of_type.values())
        self._values = {
            "jobs_waiting": len(state.live) - running,
            "jobs_running": running,
            "jobs_protected": int((mechanism.live.running() & mechanism.live.protected).sum()),
            "jobs_silent": scheduler.agents.progress.silent(),
            **{f"jobs_{how}": count for how, count in state.ended.items()},
            "servers_here": here,
            "servers_silent": sum(not machine.lost for machine in state.machines.values()) - here,
            "servers_aside": len(mechanism.failures.aside),
            "devices": devices,
            "devices_unpriced": sum(itertools.compress(of_type.values(), unpriced_A)),
            "devices_leased": devices - sum(mechanism.free().values()),
            "rounds": mechanism.rounds,
            "lost_seconds": mechanism.lost_s,
            "most_behind_seconds": mechanism.accounts.most_behind_s,
            "speeds_measured": sum(map(state.online.is_known, state.online)),
            "speeds_wrong": len(state.online.wrong()),
            "speeds_drifts": state.online.drifts,
            "speeds_rejected": sum(count for count, _ in scheduler.agents.measuring.rejected.values()),
            "log_sequence": scheduler.log.last_sequence,
            "log_failures": scheduler.log_failures,
            "log_failing": bool(scheduler.failure),
            "calls_pending": scheduler.pending,
            "solver_answers": solver.answers,
            "solver_seconds": solver.seconds,
            "solver_failures": solver.failures,
            "solver_restarts": max(0, solver.restarts),
        }
