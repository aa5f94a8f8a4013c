"""Snapshots make a restart short. They are made in another process, by a replay, so that nothing waits for them.

With 10,000 jobs it takes a third of a second to pack the state, and longer with every job that ever was; the event
loop cannot stand still for that. As the state follows from the log alone, any reader of the log can make it.
"""

import asyncio
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

from gavelx.errors import GavelxError, InputFileError
from gavelx.mechanism.commands import Command
from gavelx.service.state.plain import FORMAT, UnreadableError, from_plain, to_plain
from gavelx.service.state.state import State
from gavelx.service.store.chain import CHECKED
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import Entry, Record, entry_of

_log = logging.getLogger(__name__)
NICE = 10
"""The service goes first."""


class Restored(NamedTuple):
    """A state, the last record that it knows, and how many were applied since the snapshot it began with."""

    state: State
    sequence: int
    replayed: int


def restore(log: Log, fresh: Callable[[], State]) -> Restored:
    """The state that the log says, from its last usable snapshot on."""
    first, state = 0, fresh()
    if (found := log.snapshot(FORMAT)) is not None:
        try:
            first, state = found[0], from_plain(found[1], like=state)
        except UnreadableError as error:
            _log.warning("%s: its snapshot of record %s is not read: %s", log.name, found[0], error)
    sequence = first
    for record, _, _ in replay(log, state, after=first):
        sequence = record.sequence
    state.mechanism.validate()
    return Restored(state, sequence, sequence - first)


def replay(
    log: Log, state: State, after: int = 0, before: Callable[[Entry], None] = lambda entry: None
) -> Iterator[tuple[Record, Entry, list[Command]]]:
    """Let the state follow the log; every record, its entry, and the commands that came of it.

    ``before`` hears of an entry before it is applied.
    A record without a checksum may be anything: where it cannot be followed, the log is damaged.
    """
    for record in log.read(after=after):
        entry = entry_of(record)
        before(entry)
        try:
            commands = state.apply(entry)
        except Exception as error:
            if record.version >= CHECKED or isinstance(error, GavelxError):
                raise
            problem = f"nothing follows from it ({type(error).__name__}: {error})"
            raise log.damaged(problem, record.sequence) from error
        yield record, entry, commands


def configuration_of(log: Log) -> Configuration | None:
    """What the log was made with; None in a new one."""
    found = log.configuration
    try:
        return None if found is None else Configuration.from_json(found)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise log.damaged(f"its configuration cannot be read ({type(error).__name__}: {error})") from error


class Compacted(NamedTuple):
    """The record of the snapshot, and how many records before it were archived now."""

    sequence: int
    archived: int


def compact(place: str) -> Compacted:
    """Make a snapshot of the end of a log that no service has open, read it back, and archive what is before it.

    Raises :class:`OptionError` where there is no log or it is in use, :class:`InputFileError` for one in which
    nothing was recorded, and :class:`LogError`.
    """
    Log(place, read_only=True).close()  # a folder without a log stays as it is
    log = Log(place)
    try:
        made_with = configuration_of(log)
        if made_with is None:
            raise InputFileError("nothing was ever recorded", where=log.name)
        state, sequence, replayed = restore(log, lambda: State(made_with))
        if replayed:
            log.save_snapshot(sequence, FORMAT, to_plain(state))
            again = restore(log, lambda: State(made_with))
            assert again.replayed == 0, "the snapshot that was just written is not read"
        archived = 0
        while some := log.archive(before=sequence):
            archived += some
        log.shrink()
        return Compacted(sequence, archived)
    finally:
        log.close()


class SnapshotMaker:
    """The other process; it lives for one snapshot."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._process: SpawnProcess | None = None

    async def make(self) -> tuple[int, bytes] | None:
        """The last record that the snapshot knows, and its bytes; None where none could be made."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = self._process = context.Process(target=_make, args=(theirs, self._place), daemon=True)
        try:
            await asyncio.to_thread(process.start)
            theirs.close()
            sequence, data = await asyncio.to_thread(ours.recv)
            return sequence, data
        except (EOFError, OSError):
            return None
        finally:
            self.stop()
            ours.close()

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None and self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._process = None


def _make(pipe: Connection, place: str) -> None:
    os.nice(NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log = Log(place, read_only=True)
    made_with = configuration_of(log)
    assert made_with is not None
    state, sequence, _ = restore(log, lambda: State(made_with))
    with suppress(OSError):  # no process waits any more
        pipe.send((sequence, to_plain(state)))


def _end_with_parent() -> None:
    """End when the process that asked was killed: the next service needs the processor for itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
