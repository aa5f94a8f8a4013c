"""The log of a run: every lease as it was really held, and every completion."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gavelx.mechanism.commands import Lease
from gavelx.result import Leases

COLUMNS = ("job", "accelerator", "devices", "start_s", "end_s", "billed_s", "busy_s", "moved", "resized")
WIDTH, END = len(COLUMNS), COLUMNS.index("end_s")


class Known(NamedTuple):
    """What the scheduler knows at the end of a run; ``credited``: steps by job id."""

    rounds: int
    given_up: tuple[int, ...]
    most_behind_s: float
    credited: Mapping[int, float]


@dataclass
class Recorder:
    """Collects leases as they end.

    One may come in parts, a row each: its price, and the part of it that its job pays, are the same all the time.
    """

    completion_s: dict[int, float] = field(default_factory=dict)
    _rows: "array[float]" = field(default_factory=lambda: array("d"))  # one after another
    _last: dict[int, int] = field(default_factory=dict)  # by job, its last lease
    _accelerators: dict[str, int] = field(default_factory=dict)

    def lease(  # noqa: PLR0917
        self,
        lease: Lease,
        start_s: float,
        end_s: float,
        billed_s: float,
        busy_s: float,
        new: Mapping[str, int] | None = None,
    ) -> None:
        """A lease ended; its job held its devices from ``start_s`` to ``end_s``: a row for each of their types.

        Or ``new`` ones, by type, which got ready for a job that had not gone over to the lease yet.
        """
        last, moved, resized = self._last.get(lease.job_id, lease.id), False, False
        if new is None:
            moved, resized = last not in {lease.id, lease.continues}, last != lease.id and last == lease.continues
            self._last[lease.job_id] = lease.id
        uses = lease.configuration.uses if new is None else new.items()
        for number, (name, count) in enumerate(uses):
            a = self._accelerators.setdefault(name, len(self._accelerators))
            change = (moved, resized) if number == 0 else (False, False)
            self._rows.extend((lease.job_id, a, count, start_s, end_s, billed_s, busy_s, *change))

    @property
    def end_s(self) -> float:
        """When the last lease ended."""
        return max(self._rows[END::WIDTH], default=0.0)

    def leases(self, row_of: Mapping[int, int], accelerators: Sequence[str]) -> Leases:
        """All leases in order of their start, as columns; jobs (by id) and types become indices."""
        types = np.array([accelerators.index(name) for name in self._accelerators], dtype=np.int64)
        columns = dict(zip(COLUMNS, np.array(self._rows).reshape(-1, WIDTH).T, strict=True))
        order = np.lexsort([columns["job"], columns["start_s"]])
        columns = {name: column[order] for name, column in columns.items()}
        a_L = columns["accelerator"].astype(np.int64)
        return Leases(
            job_L=np.array([row_of[int(job_id)] for job_id in columns["job"].tolist()], dtype=np.int64),
            accelerator_L=types[a_L] if len(a_L) else a_L,
            devices_L=columns["devices"].astype(np.int64),
            start_s_L=columns["start_s"],
            end_s_L=columns["end_s"],
            billed_s_L=columns["billed_s"],
            busy_s_L=columns["busy_s"],
            moved_L=columns["moved"].astype(bool),
            resized_L=columns["resized"].astype(bool),
        )
