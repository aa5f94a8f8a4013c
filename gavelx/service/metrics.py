"""Figures for Prometheus, in a registry of their own; served on loopback unless one says otherwise."""

from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from gavelx.errors import OptionError
from gavelx.service.scheduler import Scheduler


class Metrics:
    """What is worth an alarm: late rounds, a log that cannot be written, servers that are silent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauges = {
            "jobs_waiting": "Jobs that wait",
            "jobs_running": "Jobs that hold devices",
            "jobs_complete": "Jobs complete, ever",
            "jobs_failed": "Jobs given up, ever",
            "jobs_cancelled": "Jobs cancelled, ever",
            "servers_here": "Servers whose agent is connected",
            "servers_silent": "Servers that are known and not connected",
            "rounds": "Rounds so far",
            "round_late_seconds": "By how much the last wake-up was late",
            "round_late_max_seconds": "By how much any wake-up was late",
            "most_behind_seconds": "By how much any job ever was behind what it was promised, when a round began",
            "log_sequence": "Records in the log",
            "log_append_seconds": "How long the last write of a batch took",
            "log_failures": "Writes to the log that failed",
            "log_failing": "1 while the log cannot be written",
            "apply_seconds": "How long the last batch took after it was written",
            "solver_seconds": "How long the last answer of the policy took",
            "solver_failures": "Questions that the previous allocation answered",
            "solver_restarts": "How often the solver's process was started again",
        }
        self._gauges = {
            name: Gauge(f"gavelx_{name}", text, registry=self.registry) for name, text in gauges.items()
        }
        self.calls = Counter(
            "gavelx_calls", "Calls by method and status", ["method", "code"], registry=self.registry
        )
        self.heartbeat = Histogram(
            "gavelx_heartbeat_seconds",
            "From the receipt of a heartbeat to its answer",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
        )
        self._server: WSGIServer | None = None

    def look(self, scheduler: Scheduler) -> None:
        """Take the figures of this moment."""
        state, figures, solver = scheduler.state, scheduler.figures, scheduler.solver
        running = int(state.mechanism.live.running().sum())
        here = sum(attendee.stream is not None for attendee in scheduler.attendance.here.values())
        values = {
            "jobs_waiting": len(state.live) - running,
            "jobs_running": running,
            **{f"jobs_{how}": count for how, count in state.ended.items()},
            "servers_here": here,
            "servers_silent": sum(not machine.lost for machine in state.machines.values()) - here,
            "rounds": state.mechanism.rounds,
            "round_late_seconds": figures.late_s,
            "round_late_max_seconds": figures.latest_s,
            "most_behind_seconds": state.mechanism.most_behind_s,
            "log_sequence": scheduler.log.last_sequence,
            "log_append_seconds": figures.append_s,
            "log_failures": figures.log_failures,
            "log_failing": bool(scheduler.failure),
            "apply_seconds": figures.apply_s,
            "solver_seconds": solver.seconds,
            "solver_failures": solver.failures,
            "solver_restarts": max(0, solver.restarts),
        }
        for name, value in values.items():
            self._gauges[name].set(value)

    def serve(self, host: str, port: int) -> int:
        """Answer HTTP there; the port. Raises :class:`OptionError`."""
        try:
            self._server, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            raise OptionError(f"{host}:{port} cannot be had ({error.strerror})", where="--metrics") from None
        return int(self._server.server_port)

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
