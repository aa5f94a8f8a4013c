"""What the scheduler says of an elastic job: what may change, its size now, and who this process is in it.

``GAVELX_ELASTIC`` holds one JSON object (docs/training.md lists its words). Without it a job is rigid.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gavelx.errors import UserError
from gavelx.training.rates import RULES

VARIABLE = "GAVELX_ELASTIC"
LEFT = 79
"""Exit status of a process that left its job in a resize: neither failed nor complete."""
RESIZE_FAILED = 80
"""Exit status of a process whose resize failed in the pause: the job restarts from its last checkpoint."""


@dataclass(frozen=True)
class Size:
    """The processes of a job between two resizes, and the samples of one update.

    A *slot* is the number of a process for its life; ``rank_of_slot`` says its rank in this generation. The first
    rank opens a store at ``master``:``port``. ``batch`` 0: as submitted. ``parts_of_rank``: how many logical
    workers each rank computes, where devices are of several types; empty: as many as others, or one more or less.
    """

    generation: int
    world_size: int
    rank_of_slot: Mapping[int, int]
    master: str
    port: int
    batch: int = 0
    parts_of_rank: tuple[int, ...] = ()

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "Size":
        """Raises ``KeyError``, ``TypeError`` or ``ValueError`` if the words make no sense."""
        ranks = {int(slot): int(rank) for slot, rank in words["rank_of_slot"].items()}
        size = cls(
            generation=int(words["generation"]),
            world_size=int(words["world_size"]),
            rank_of_slot=ranks,
            master=str(words["master"]),
            port=int(words["port"]),
            batch=int(words.get("batch") or 0),
            parts_of_rank=tuple(int(count) for count in words.get("parts_of_rank") or ()),
        )
        if sorted(ranks.values()) != list(range(size.world_size)) or not ranks:
            raise ValueError(f"world_size {size.world_size} with ranks {sorted(ranks.values())}")
        if size.batch < 0:
            raise ValueError(f"batch {size.batch}")
        if size.parts_of_rank and (len(size.parts_of_rank) != size.world_size or min(size.parts_of_rank) < 1):
            raise ValueError(f"parts_of_rank {size.parts_of_rank} for {size.world_size} processes")
        return size

    def joiners_after(self, before: "Size") -> list[int]:
        """The ranks of processes that were not there before."""
        return sorted(rank for slot, rank in self.rank_of_slot.items() if slot not in before.rank_of_slot)

    def keeps_first(self, before: "Size") -> bool:
        """Whether the first rank was there before, so that it has the state."""
        return 0 not in self.joiners_after(before)


@dataclass(frozen=True)
class Elasticity:
    """How the job may change, and the place of this process.

    ``workers``: the number of processes changes, and an update always has the samples of ``parts`` logical
    workers. ``batch``: the samples of an update change too; ``batch`` is their number as submitted, M0. ``joins``:
    this process joins a running job.
    """

    what: Literal["workers", "batch"]
    slot: int
    size: Size
    parts: int = 1
    batch: int = 0
    rates: str = "linear"
    joins: bool = False

    @property
    def rank(self) -> int:
        return self.size.rank_of_slot[self.slot]

    def parts_of_rank(self, world_size: int) -> tuple[int, ...]:
        """How many logical workers each of so many processes computes; empty: about equally many."""
        spread = self.size.parts_of_rank
        return spread if len(spread) == world_size else ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Elasticity | None":
        """From the environment; None for a rigid job. Raises :class:`UserError` if it makes no sense."""
        text = environment.get(VARIABLE)
        if not text:
            return None
        try:
            return cls._read(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{text!r} ({type(error).__name__}: {error})",
                where=VARIABLE,
                expected='{"what": "workers" or "batch", "slot": ..., "parts": ..., "batch": ..., "size": {...}}',
                hint="the agent sets it; unset it to run the script as a rigid job",
            ) from None

    @classmethod
    def _read(cls, words: Mapping[str, Any]) -> "Elasticity":
        found = cls(
            what=words["what"],
            slot=int(words["slot"]),
            size=Size.of(words["size"]),
            parts=int(words.get("parts") or 1),
            batch=int(words.get("batch") or 0),
            rates=words.get("rates") or "linear",
            joins=words.get("joins") is True,
        )
        if found.what not in ("workers", "batch"):
            raise ValueError(f"what is {found.what!r}")
        if found.what == "workers" and found.size.world_size > found.parts:
            raise ValueError(f"{found.size.world_size} processes for {found.parts} logical workers")
        if found.size.parts_of_rank and sum(found.size.parts_of_rank) != found.parts:
            raise ValueError(f"parts_of_rank {found.size.parts_of_rank} of {found.parts} logical workers")
        if found.what == "batch" and found.batch < 1:
            raise ValueError("the submitted batch is missing")
        if found.rates not in RULES:
            raise ValueError(f"rates is {found.rates!r}, and there are {', '.join(RULES)}")
        if found.slot not in found.size.rank_of_slot:
            raise ValueError(f"slot {found.slot} has no rank")
        return found
