"""Results that were written with ``--json``, read back for their bills: who held which devices for how long."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gavelx.files.jsons import Node, read_json

SECONDS_MAX = 1e15
"""Of devices: thirty thousand of them for a thousand years."""


@dataclass(frozen=True)
class Use:
    """Device-seconds billed to one job, by accelerator type."""

    job_id: int
    owner: str
    device_s: Mapping[str, float]


@dataclass(frozen=True)
class Usage:
    """The device time of one run: job by job, and what was there and billed to nobody (idle), by type."""

    policy: str
    uses: tuple[Use, ...]
    idle_device_s: Mapping[str, float]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Every type of the cluster, in its order."""
        return tuple(self.idle_device_s)


def read_usages(path: str | Path) -> tuple[Usage, ...]:
    """The runs of a file that ``simulate --json`` or ``compare --json`` wrote.

    Raises :class:`InputFileError` with the path of keys, also for a result of before there were bills.
    """
    node = read_json(path)
    runs = node["runs"].elements() if "runs" in node else [node]
    if not runs:
        raise node.mistake("there is no run in it", expected="one at least")
    return tuple(_usage(run) for run in runs)


def _usage(node: Node) -> Usage:
    if "per_job" in node and "idle_device_s" not in node:
        hint = "run gavelx simulate or compare again, with --json"
        raise node.mistake("this result was written before there were bills: no idle_device_s", hint=hint)
    idle_device_s = _seconds(node["idle_device_s"])
    uses = tuple(_use(job, idle_device_s) for job in node["per_job"].elements())
    return Usage(node["policy"].text(), uses, idle_device_s)


def _use(node: Node, known: Mapping[str, float]) -> Use:
    device_s = _seconds(node["device_s"])
    for name in device_s:
        if name not in known:
            expected = "one of " + ", ".join(known)
            raise node["device_s"].mistake(f"{name!r} is not in the cluster", expected=expected)
    return Use(node["job_id"].whole(low=0), node["owner"].text("") if "owner" in node else "", device_s)


def _seconds(node: Node) -> dict[str, float]:
    return {name.lower(): value.number(low=0, high=SECONDS_MAX) for name, value in node.items()}
