"""The store: a line of JSON for each finished point, so that an interrupted run goes on where it stopped.

A line is added in one write after its point is done. Whatever ends the program, at most the last line is torn,
and it is dropped when the store is opened again.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from experiments.points import Limits, Point, Record


class Store:
    """Finished points by what they are; the last line about a point counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[Point, Record] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            record = json.loads(line)
            self.records[Point.from_json(record["point"])] = record

    def add(self, record: Record) -> None:
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        with self.path.open("ab", buffering=0) as file:
            file.write(line)
            os.fsync(file.fileno())
        self.records[Point.from_json(record["point"])] = record

    def has(self, point: Point, limits: Limits) -> bool:
        """Whether the point is done: to its end, or to limits that are no tighter than these."""
        record = self.records.get(point)
        if record is None:
            return False
        if not record["stopped"]:
            return True
        had = Limits(**record["limits"])
        return had.cpu_s >= limits.cpu_s and had.patience_h >= limits.patience_h

    def by_seed(self, point: Point) -> dict[int, Record]:
        """What is done of a point under any seed, in the order of the seeds."""
        same = {one.seed: record for one, record in self if replace(one, seed=point.seed) == point}
        return dict(sorted(same.items()))

    def __iter__(self) -> Iterator[tuple[Point, Record]]:
        return iter(self.records.items())

    def __len__(self) -> int:
        return len(self.records)
