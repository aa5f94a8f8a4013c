"""Figures for Prometheus, counted as things happen, in a registry of their own.

They are served on loopback unless one says otherwise. The figures of the moment (how many jobs wait, who is here)
are in `gauges`. Worth an alarm: a log that cannot be written, silent servers, late rounds, a late loop.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from threading import Lock
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, make_wsgi_app

from gavelx.errors import OptionError

BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
READERS, READ_S = 16, 5.0
"""Readers of the figures that are answered at once, and for how long each may say or take nothing."""
PULSE_S = 0.05
"""How often the loop is asked whether it is late."""


class PooledServer(ThreadingMixIn, WSGIServer):
    """Answers so many at once; whoever comes while ``READERS`` are answered is turned away at once."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._places = threading.Semaphore(READERS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that has gone, or says nothing, is no error of ours."""


class QuietHandler(WSGIRequestHandler):
    """Waits ``READ_S`` for a reader, and logs no line for each."""

    timeout = READ_S

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Durations:
    """A histogram ``gavelx_NAME_seconds``; and ``gavelx_NAME_max_seconds``, the longest so far.

    Another thread reads them between two observations, never within one: count, sum and longest fit together.
    """

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        histogram = f"gavelx_{name}_seconds"
        self._all = Histogram(histogram, text, registry=None, buckets=BUCKETS_S)
        longest = f"The longest since the service began. {text}"
        self._longest = Gauge(f"gavelx_{name}_max_seconds", longest, registry=None)
        self._lock = Lock()
        self.longest_s = 0.0
        registry.register(self)

    def observe(self, seconds: float) -> None:
        with self._lock:
            self._all.observe(seconds)
            self.longest_s = max(self.longest_s, seconds)
            self._longest.set(self.longest_s)

    def collect(self) -> list[Metric]:
        """For the registry."""
        with self._lock:
            return [*self._all.collect(), *self._longest.collect()]

    @contextmanager
    def time(self) -> Iterator[None]:
        """How long what is inside takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.observe(time.perf_counter() - started)


class Metrics:
    """Calls, and how long things take."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.calls = Counter(
            "gavelx_calls", "Calls answered, by method and status", ["method", "code"], registry=registry
        )
        self.heartbeat = Durations(
            "heartbeat", "From the receipt of one message of an agent until it was answered", registry
        )
        self.append = Durations("log_append", "Writing one batch to the log, until it was on disk", registry)
        self.apply = Durations(
            "apply", "Acting on one batch after it was on disk; agents wait meanwhile", registry
        )
        self.plan = Durations("plan", "The mechanism's part in one wake-up or answer of the policy", registry)
        self.round_late = Durations(
            "round_late",
            "From when the mechanism wanted to be woken until what it then decided was on its way to the agents",
            registry,
        )
        self.loop_late = Durations(
            "loop_late", "By how much a timer of the service was late, as every heartbeat then is", registry
        )
        self._server: WSGIServer | None = None

    async def feel_the_pulse(self) -> None:
        """Look again and again how late the loop is."""
        while True:
            due_s = time.perf_counter() + PULSE_S
            await asyncio.sleep(PULSE_S)
            self.loop_late.observe(max(0.0, time.perf_counter() - due_s))

    def serve(self, host: str, port: int) -> int:
        """Answer HTTP there; the port. Raises :class:`OptionError`."""
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            kind = type("MetricsServer", (PooledServer,), {"address_family": family})
            self._server = make_server(host, port, make_wsgi_app(self.registry), kind, QuietHandler)
        except OSError as error:
            raise OptionError(f"{host}:{port} cannot be had ({error.strerror})", where="--metrics") from None
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_port)

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
