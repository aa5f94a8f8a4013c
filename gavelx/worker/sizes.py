"""The processes of a running job on one server: in its lease, and in the one to which it goes over.

A job that is resized keeps its processes, its folder and its shim. What changes is in ``sizes.json`` of that
folder, from which a restarted agent and the shim know it. What the job itself is told is in docs/training.md, "Of
an elastic job".
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gavelx.elastic import Elastic
from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.surroundings import visible

Json = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """What of a lease is on this server: devices, and the numbers of the processes, in the order of their ranks.

    ``words`` are those about the whole job in its lease file; a rigid job has none. ``since_s``: from when on its
    time counts.
    """

    lease_id: int
    devices: list[str]
    slots: int
    numbers: list[int]
    words: Json
    since_s: float

    @staticmethod
    def of(launch: wire.Launch, devices: Iterable[str], since_s: float) -> "Size":
        """As the scheduler says."""
        numbers = list(launch.numbers) or list(range(launch.first_rank, launch.first_rank + launch.processes))
        words = words_of(launch) if launch.elasticity else {}
        return Size(launch.lease_id, list(devices), len(launch.slots), numbers, words, since_s)

    def rank_of(self, number: int) -> int:
        """The rank of one of its processes."""
        return int(self.words["rank_of_slot"][str(number)]) if self.words else number

    def to_json(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_json(known: Json, launch: Json) -> "Size":
        """What :meth:`to_json` wrote. What an earlier version did not write is in the launch file."""
        earlier = {
            "lease_id": launch["lease_id"],
            "devices": launch.get("devices", []),
            "slots": launch.get("slots", 0),
            "numbers": [process["rank"] for process in launch["processes"]],
            "words": {},
            "since_s": launch["started_s"],
        }
        return Size(**(earlier | known))


def words_of(launch: wire.Launch) -> Json:
    """The size of an elastic job, as its lease file and its processes are told."""
    ranks = launch.size.rank_of_number
    return {
        "generation": launch.size.generation,
        "world_size": len(ranks),
        "rank_of_slot": {str(number): ranks[number] for number in sorted(ranks)},
        "master": launch.master_address or "127.0.0.1",
        "port": launch.master_port,
        "batch": launch.size.batch,
        **({"parts_of_rank": list(launch.size.parts_of_rank)} if launch.size.parts_of_rank else {}),
    }


def environment_of(launch: wire.Launch, size: Size, number: int, *, joins: bool) -> dict[str, str]:
    """What one process is told beside what all are told: its rank, and how the job may change."""
    here = size.numbers.index(number)
    environment = {"RANK": str(size.rank_of(number)), "LOCAL_RANK": str(here)}
    if size.devices and size.devices[0].startswith("MIG-"):  # CUDA shows a process one slice at most
        environment |= visible([size.devices[here % len(size.devices)]])
    if launch.elasticity:
        elastic = Elastic.of(launch.elasticity)
        words = {
            "what": elastic.what,
            "slot": number,
            "parts": elastic.parts_of(launch.workers),
            "batch": elastic.batch,
            "rates": elastic.rates,
            "joins": joins,
            "size": size.words,
        }
        environment["GAVELX_ELASTIC"] = json.dumps(words)
    return environment
