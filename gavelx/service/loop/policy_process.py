"""Policies are asked in a process of their own, which can be stopped whatever it does.

The process is started anew (never forked) and warmed up, and it ends with the one that started it. The time that
it may take is its own: while it waits for a processor that others have, its time stands still.
"""

import multiprocessing
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from typing import Any

from gavelx.allocation import Allocation
from gavelx.asking import ask, policy_opens
from gavelx.cluster import Cluster
from gavelx.errors import GavelxError
from gavelx.estimator.active import FIRST_LOOKED_AT, first_leases
from gavelx.jobs import Job
from gavelx.policies import Policy, load_policy
from gavelx.service.store.allocation_record import allocation_of, answer_of
from gavelx.snapshot import Snapshot
from gavelx.solvers import Settings, using
from gavelx.throughputs import Setting, Throughputs

START_S = 60.0
"""How long the process may take to start and to load a policy."""
STILL_S = 60
"""How long a question or an answer may be on its way and not move, as where the process is frozen."""
SLACK_S = 5.0
"""A solver that keeps to its budget needs some time besides."""
LOOK_S = 0.25
"""How often the clock of a process is read that has not answered yet."""
QUICK_S = 0.2
"""A policy that takes longer is not asked what a measurement is worth, which takes some more calls."""


def most_s(settings: Settings) -> float:
    """How long the process may take for one answer."""
    return settings.budget_s * 1.1 + SLACK_S


@dataclass
class PolicyProcess:
    """The process: started when it is asked, and again after it was stopped (``restarts`` times)."""

    restarts: int = -1
    _process: SpawnProcess | None = None
    _pipe: Connection | None = None

    def asked(self, question: tuple[Any, ...], limit_s: float) -> Any:
        """The answer to a question; raises what it raised, and TimeoutError, EOFError or OSError if none came.

        Then the process is stopped: a late answer would be taken for that to the next question.
        """
        try:
            self._start()
            answer = self._exchanged(question, limit_s)
        except BaseException:
            self.stop()
            raise
        if isinstance(answer, GavelxError):
            raise answer
        return answer

    def stop(self) -> None:
        """Kill the process, whatever it does."""
        process, self._process = self._process, None  # another thread may stop it as well
        pipe, self._pipe = self._pipe, None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        _never_still(self._pipe)
        process = context.Process(target=_serve, args=(theirs,), daemon=True, name="gavelx-solver")
        process.start()  # stopped from another thread meanwhile, it finds its pipe closed, and ends
        self._process = process
        theirs.close()
        self.restarts += 1
        self._exchanged(("warm up",), START_S)

    def _exchanged(self, question: tuple[Any, ...], limit_s: float) -> Any:
        assert self._process is not None and self._pipe is not None
        taken_s = own_time(self._process.pid or 0)
        self._pipe.send(question)
        while not self._pipe.poll(min(LOOK_S, max(0.0, limit_s - taken_s()))):
            if taken_s() >= limit_s:
                raise TimeoutError
        return self._pipe.recv()


def _never_still(pipe: Connection) -> None:
    """What waits for this end raises OSError after ``STILL_S``: a pipe takes no large question at once."""
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        for what in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            end.setsockopt(socket.SOL_SOCKET, what, struct.pack("ll", STILL_S, 0))


def own_time(pid: int) -> Callable[[], float]:
    """A clock of a process, from now on: seconds less those in which it waited for a processor.

    What it sleeps counts, and everything does where the system does not say how long a process waits.
    """
    started, waited_s = time.monotonic(), _waited_s(pid)
    return lambda: time.monotonic() - started - (_waited_s(pid) - waited_s)


def _waited_s(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


# -- in the other process -------------------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Answer until no more is asked."""
    Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout = sys.stderr  # what a user's policy prints
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            question = pipe.recv()
            try:
                answer = _answer(*question)
            except GavelxError as error:
                answer = _portable(error)
            except Exception as error:
                answer = GavelxError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
            pipe.send(answer)


def _end_with_parent() -> None:
    """A policy without end must not outlive the one who asked."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _portable(error: GavelxError) -> GavelxError:
    """The error, which crosses a pipe; of a kind that its author made, the message in one of ours."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == GavelxError.__module__)
    return error if kind is type(error) else kind(str(error))


def _answer(what: str, *rest: Any) -> Any:
    match what:
        case "warm up":
            policy, snapshot = load_policy("max_min_fairness"), _smallest()
            return answer_of(ask(policy, snapshot))
        case "load":
            _policy.cache_clear()  # its file may have changed
            policy = _policy(rest[0])
            return str(policy), policy_opens(policy)
    text, snapshot, settings = rest
    with using(settings):
        answer = answer_of(_with_first_leases(_policy(text), snapshot))
    allocation_of(answer, snapshot)  # the process that asked must be able to read it
    return answer


def _with_first_leases(policy: Policy, snapshot: Snapshot) -> Allocation:
    """The policy's answer, and where jobs should begin whose speeds are not known."""
    began_s = time.monotonic()
    allocation = ask(policy, snapshot)
    quick = time.monotonic() - began_s < QUICK_S and hasattr(policy, "gain")
    try:
        return allocation.with_execution(first_on=first_leases(policy, snapshot, FIRST_LOOKED_AT if quick else 0))
    except GavelxError:
        return allocation  # it can do without


@lru_cache(1)
def _policy(text: str) -> Policy:
    return load_policy(text)


def _smallest() -> Snapshot:
    """One job, one device: enough to load what a solve needs."""
    table = Throughputs({Setting("job", "device"): 1.0})
    return Snapshot.of([Job(0, "job", 1.0)], Cluster.of({"device": 1}), table)
