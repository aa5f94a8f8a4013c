"""The output of jobs, sent in parts from any offset, and continuously if it is followed."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.shim import open_file

CHUNK_BYTES = 1 << 16
CHUNKS_AT_ONCE = 4
"""Parts that are sent before other messages get their turn."""
_NAME = re.compile(r"out\.(\d{1,9})(?:\.(\d{1,18}))?\.log")
"""A job may have made others, with numbers that fit into no message."""


class Tail:
    """One request for a job's output on this server: all of its leases here in turn, rank by rank.

    The first ``offset`` bytes are left out. With ``follow``, it never ends by itself. ``room`` is the number of
    parts that may still be sent before the reader acknowledges some.
    """

    def __init__(self, request: wire.SendLog, server: str) -> None:
        self.request, self.server = request, server
        self.skip = int(request.offset)
        self.room: float = request.room or math.inf
        self.ended = self._has_begun = False
        self._at: dict[tuple[int, int], int] = {}
        """The bytes already read of each lease's rank."""

    def parts(self, leases: Iterable[Path], removed: Callable[[int], str] = lambda _: "") -> list[wire.FromAgent]:
        """The messages to send now, a few parts at a time; the last one is marked.

        The first one says why output of the job was ``removed``, if some was.
        """
        most = int(min(CHUNKS_AT_ONCE, self.room))
        parts = [self._part(chunk) for chunk in islice(self._chunks(leases), most)]
        if not self._has_begun:
            self._has_begun = True
            if why := removed(self.request.job_id):
                parts.insert(0, self._part(wire.LogChunk(server=self.server, removed=why)))
                most += 1
        self.room -= len(parts)
        if len(parts) < most and not self.request.follow:
            self.ended = True
            parts.append(wire.FromAgent(log_part=wire.LogPart(request_id=self.request.request_id, last=True)))
        return parts

    def _part(self, chunk: wire.LogChunk) -> wire.FromAgent:
        return wire.FromAgent(log_part=wire.LogPart(request_id=self.request.request_id, chunk=chunk))

    def _chunks(self, leases: Iterable[Path]) -> Iterator[wire.LogChunk]:
        for lease in leases:
            for rank, segments in sorted(segments_of(lease).items()):
                for start, path in segments:
                    yield from self._rest_of(int(lease.name), rank, start, path)

    def _rest_of(self, lease_id: int, rank: int, start: int, path: Path) -> Iterator[wire.LogChunk]:
        """The new bytes of one segment; bytes between it and the segment before were dropped."""
        at = self._at.get((lease_id, rank), 0)
        gap, at = max(0, start - at), max(at, start)
        try:
            with open_file(path) as file:
                file.seek(at - start)
                while text := file.read(CHUNK_BYTES):
                    at += len(text)
                    self._at[lease_id, rank] = at
                    kept = text[min(self.skip, len(text)) :]
                    self.skip -= len(text) - len(kept)
                    if kept or gap:
                        yield wire.LogChunk(
                            text=kept, server=self.server, rank=rank, lease_id=lease_id, dropped=gap
                        )
                    gap = 0
        except OSError:
            return  # deleted while we read, or no file


def segments_of(lease: Path) -> dict[int, list[tuple[int, Path]]]:
    """The files of each rank's output, with the offset at which each begins."""
    return segments_in(lease.glob("out.*.log"))


def segments_in(paths: Iterable[Path]) -> dict[int, list[tuple[int, Path]]]:
    """The same, of these files."""
    found: dict[int, list[tuple[int, Path]]] = {}
    for path in paths:
        match = _NAME.fullmatch(path.name)
        if match:
            found.setdefault(int(match[1]), []).append((int(match[2] or 0), path))
    return {rank: sorted(segments) for rank, segments in found.items()}
