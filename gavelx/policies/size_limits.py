"""How many devices a job may have at most by now: limits that rise with the time for which it was trained.

ONES (SC'21, section 3.3) limits each job's batch, which is its local batch times its devices: a new job has one
device until its first epoch is over, the limit doubles after each epoch, and halves where it is preempted or where
a job holds much while others wait. A scheduler does not know where the epochs of a job end, so they are periods of
training here, of ``epoch_s`` seconds.

Legend: J jobs.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.errors import PolicyError
from gavelx.job_table import column
from gavelx.memory import Memory
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Up = Literal["free", "double"]
Down = Literal["none", "paper", "largest"]
UNKNOWN = -1


@dataclass(frozen=True)
class Limits:
    """The rules of limits.

    * ``epoch_s``: seconds of training that count as an epoch;
    * ``start``: a job that has not been trained for an epoch has its smallest size;
    * ``up``: otherwise it may have any size (``free``), or twice as much after every epoch (``double``);
    * ``down``: never, after every epoch by the printed formula ``2 R / ceil(s T + 1)`` (``paper``; s is the rate
      of arrivals, T the seconds of training), or for the job that holds at least half of the devices while others
      wait (``largest``, as the published code). As s T + 1 is above 1 as soon as T is above 0, the printed limit
      never rises;
    * ``halve``: the limit of a job that was trained and got nothing halves.
    """

    epoch_s: float = 60.0
    start: bool = False
    up: Up = "free"
    down: Down = "none"
    halve: bool = False

    def __post_init__(self) -> None:
        if not (0.0 < self.epoch_s < np.inf and self.up in get_args(Up) and self.down in get_args(Down)):
            raise PolicyError(
                f"epoch_s={self.epoch_s:g}, up={self.up!r}, down={self.down!r}",
                where="Limits(...)",
                expected="epoch_s above 0, up 'free' or 'double', down 'none', 'paper' or 'largest'",
            )

    def most_J(self, snapshot: Snapshot, least_J: Ints, cap_J: Ints, now_J: Ints) -> tuple[Ints, Ints]:
        """The limit of each job in devices, and the epochs for which it was trained.

        It is between ``least_J`` and ``cap_J``, the devices of its smallest and largest size; it has ``now_J``.
        """
        epochs_J = np.floor(snapshot.held_s_J / self.epoch_s).astype(np.int64)
        before_J, counted_J = self._remembered(snapshot, least_J)
        new_J = np.maximum(0, epochs_J - counted_J)
        if self.down == "paper":
            most_J = self._printed_J(snapshot, before_J)
        elif self.up == "double":
            most_J = before_J * 2 ** np.minimum(new_J, 20)
        else:
            most_J = cap_J
        if self.down == "largest":
            most_J = np.where(_holds_half_J(snapshot, now_J), before_J // 2, most_J)
        most_J = np.where(new_J > 0, most_J, before_J)
        if not self.start:
            most_J = np.where(epochs_J == 0, cap_J, most_J)
        return np.clip(most_J, least_J, np.maximum(least_J, cap_J)), epochs_J

    def to_remember(self, snapshot: Snapshot, most_J: Ints, epochs_J: Ints, gets_J: Bools) -> Memory:
        """The limits after a decision: who was trained before and gets nothing has half, if such is the rule."""
        if self.halve:
            most_J = np.where((snapshot.held_s_J > 0.0) & ~gets_J, np.maximum(1, most_J // 2), most_J)
        ids = snapshot.id_J
        return {"job": ids, "most": most_J, "epochs": epochs_J}

    @staticmethod
    def _remembered(snapshot: Snapshot, least_J: Ints) -> tuple[Ints, Ints]:
        """Limits and counted epochs of before; of a job that is not remembered, its smallest size, and none."""
        row_J, ids = remembered_rows(snapshot), snapshot.memory.get("job", np.zeros(0))
        known_J = row_J != UNKNOWN
        found = [least_J.copy(), np.zeros(len(least_J), dtype=np.int64)]
        for values_J, name in zip(found, ("most", "epochs"), strict=True):
            if (column := snapshot.memory.get(name)) is not None and column.shape == ids.shape:
                values_J[known_J] = column[row_J[known_J]]
        return found[0], found[1]

    @staticmethod
    def _printed_J(snapshot: Snapshot, most_J: Ints) -> Ints:
        """The limit after an epoch as the paper prints it; arrivals are those of the jobs that are there."""
        arrivals_s = column(snapshot.jobs, "arrival_s")
        span_s = float(np.ptp(arrivals_s)) if len(arrivals_s) > 1 else 0.0
        per_s = (len(arrivals_s) - 1) / span_s if span_s > 0.0 else 0.0
        return np.ceil(2.0 * most_J / np.ceil(per_s * snapshot.held_s_J + 1.0)).astype(np.int64)


def remembered_rows(snapshot: Snapshot) -> Ints:
    """The row of each job among the ids that are remembered, or ``UNKNOWN``."""
    row_of = {job_id: row for row, job_id in enumerate(snapshot.memory.get("job", np.zeros(0)).ravel().tolist())}
    return np.array([row_of.get(job_id, UNKNOWN) for job_id in snapshot.id_J.tolist()], dtype=np.int64)


def _holds_half_J(snapshot: Snapshot, now_J: Ints) -> Bools:
    """The job that holds most, if that is at least half of all devices and somebody waits."""
    holds_J = np.zeros(len(now_J), dtype=bool)
    if (now_J == 0).any():
        j = int(now_J.argmax())
        holds_J[j] = 2 * now_J[j] >= snapshot.devices_A.sum()
    return holds_J
