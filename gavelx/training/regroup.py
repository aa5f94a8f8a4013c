"""A live resize: the processes of a job meet again in another number, and nothing is restarted.

1. The lease file names a new generation: its ranks, and the address of a store. Its first rank, which is one of
   those that stay, opens the store before any other needs it.
2. Joiners import, build and run one batch while the others train; then they write ``ready/RANK`` into the store.
3. The old group votes: the pause begins at a step when all have heard and every joiner is ready.
4. The old group is left. Processes without a rank exit with the status ``LEFT``. The first rank writes ``go``.
5. All meet in the store, make the new group, and the first rank sends the state to joiners, if there are any.

A process that dies before ``go`` is its agent's matter: the others train on. After that the others wait for
``MEET_S`` seconds at most, and exit with the status ``RESIZE_FAILED``.
"""

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from gavelx.training.checkpoints import TrainingWarning
from gavelx.training.elastic import LEFT, RESIZE_FAILED, Size
from gavelx.training.gang import Gang
from gavelx.training.lease import Lease

Store = Any
"""A ``torch.distributed.TCPStore``, for which torch has no type."""
MEET_S = 30.0
"""Seconds for which a process in the pause waits for the others."""
READY_S = 1.0
"""Seconds between looks of a joiner at its lease, while it waits for the pause."""


class Regroup:
    """The present generation of a job, and the meeting of the next one."""

    def __init__(self, gang: Gang, lease: Lease) -> None:
        assert gang.elastic is not None
        self.gang, self.lease, self.slot = gang, lease, gang.elastic.slot
        self.size = gang.elastic.size
        self._store: Any = None
        self._store_of = -1

    @property
    def next(self) -> Size | None:
        """The generation that the lease names, if it is a new one."""
        named = self.lease.size
        return named if named is not None and named.generation > self.size.generation else None

    @property
    def heard(self) -> int:
        """The newest generation that we have heard of."""
        return self.next.generation if self.next is not None else self.size.generation

    def ready(self) -> bool:
        """Whether we are the first rank of the next generation, and all of its joiners are ready."""
        coming = self.next
        if coming is None or coming.rank_of_slot.get(self.slot) != 0:
            return False
        if coming.world_size == 1:
            return True
        if self._store_of != coming.generation and not self._open(coming):
            return False
        joiners = coming.joiners_after(self.size)
        assert self._store is not None
        return not joiners or self._store.check([f"ready/{rank}" for rank in joiners])

    def _open(self, coming: Size) -> bool:
        try:
            self._store = _store(coming, first=True)
        except RuntimeError as error:
            message = f"no store at port {coming.port} for generation {coming.generation}: {_line(error)}"
            warnings.warn(message, TrainingWarning, stacklevel=2)
            return False
        self._store_of = coming.generation
        return True

    def regroup(self) -> list[int]:
        """Leave the group and meet in the next one, at a step that all agreed on; the ranks that joined.

        Raises ``SystemExit`` with ``LEFT`` in a process that has no rank any more.
        """
        coming = self.next
        assert coming is not None
        joiners = coming.joiners_after(self.size)
        self.gang.leave()
        rank = coming.rank_of_slot.get(self.slot)
        if rank is None:
            raise SystemExit(LEFT)
        with ending_as_failed(f"generation {coming.generation}"):
            self._meet(coming, rank)
        self.size = coming
        assert self.gang.elastic is not None
        self.gang.elastic = replace(self.gang.elastic, size=coming)
        return joiners

    def join(self, stopping: Callable[[], bool]) -> None:
        """As a joiner: say that we are ready, wait for the pause, and meet the others.

        Raises ``SystemExit`` with ``LEFT`` if the job stops or ends before.
        """
        with ending_as_failed(f"joining generation {self.size.generation}"):
            self._store = _connected(self.size, stopping)
            rank = self.size.rank_of_slot[self.slot]
            self._store.set(f"ready/{rank}", "1")
            while not _written(self._store, "go"):
                if stopping():
                    raise SystemExit(LEFT)
            self._meet(self.size, rank)

    def cancel(self) -> None:
        """The job stops or is complete: processes that wait to join may leave."""
        if self._store is not None and self._store_of > self.size.generation:
            with contextlib.suppress(RuntimeError):
                self._store.set("go", "")

    def _meet(self, size: Size, rank: int) -> None:
        if size.world_size == 1:
            self._store = None
            return self.gang.join(None, "", 0, 1)
        if rank == 0:
            assert self._store is not None
            self._store.set("go", self.gang.backend)
        elif not self.gang.joins:
            self._store = _store(size, first=False)
        assert self._store is not None
        backend = self._store.get("go").decode()
        if not backend:
            raise SystemExit(LEFT)
        self._store.set(f"here/{rank}", "1")
        self._store.wait([f"here/{other}" for other in range(size.world_size)], timedelta(seconds=MEET_S))
        return self.gang.join(self._store, backend, rank, size.world_size)


def _store(size: Size, first: bool, wait_s: float = MEET_S) -> Store:
    return dist.TCPStore(  # type: ignore[attr-defined]
        size.master,
        size.port,
        is_master=first,
        wait_for_workers=False,
        timeout=timedelta(seconds=wait_s),
    )


def _connected(size: Size, stopping: Callable[[], bool]) -> Store:
    """The store of a generation, which its first rank opens when it hears of us."""
    begin_s = time.monotonic()
    while True:
        try:
            return _store(size, first=False)
        except RuntimeError:
            if stopping():
                raise SystemExit(LEFT) from None
            if time.monotonic() > begin_s + 20 * MEET_S:
                raise


def _written(store: Store, key: str) -> bool:
    """Whether there is a key within ``READY_S``. Without the store the gang is gone, and we leave."""
    try:
        store.wait([key], timedelta(seconds=READY_S))
    except dist.DistStoreError:  # not yet
        return False
    except RuntimeError:
        raise SystemExit(LEFT) from None
    return True


@contextlib.contextmanager
def ending_as_failed(what: str) -> Iterator[None]:
    """Exit with ``RESIZE_FAILED`` if a process is missing."""
    try:
        yield
    except RuntimeError as error:
        sys.stderr.write(f"gavelx: the resize failed ({what}): {_line(error)}\n")
        raise SystemExit(RESIZE_FAILED) from error


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
