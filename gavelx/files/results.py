"""Results written with ``--json``, read back for bills: device-seconds of each job and type."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from gavelx.files.jsons import Node, read_json

SECONDS_MAX = 1e15
"""The most device-seconds: thirty thousand devices for a thousand years."""
USD_MAX = 1e15
"""The highest price of a device-hour: with more, an amount could not be told to the cent."""
ROUNDING = 1e-6
"""Relative tolerance between a sum of seconds and its parts."""


@dataclass(frozen=True)
class Use:
    """Device-seconds billed to one job, by accelerator type; and the same in each period of the run's prices."""

    job_id: int
    owner: str
    device_s: Mapping[str, float]
    device_s_of_period: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Period:
    """A period of constant prices: dollars per device-hour (None: unknown), and idle device-seconds."""

    from_s: float
    usd_per_hour: Mapping[str, Decimal | None]
    idle_device_s: Mapping[str, float]


@dataclass(frozen=True)
class Usage:
    """The device time of one run by type: of each job, and idle (available and billed to no job).

    ``prices`` is the name of the prices of the run, ``periods`` holds the prices themselves; an old result,
    written before results kept their prices, has none. ``estimated`` has the accelerator types on which speeds
    were estimated, with the factor within which they typically are; ``repetitions`` is the usage of each
    repetition with speeds drawn from their ranges, all jobs together.
    """

    policy: str
    uses: tuple[Use, ...]
    idle_device_s: Mapping[str, float]
    prices: str = ""
    periods: tuple[Period, ...] = ()
    estimated: Mapping[str, float] = field(default_factory=dict)
    repetitions: tuple["Usage", ...] = ()

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Every type of the cluster, in its order."""
        return tuple(self.idle_device_s)

    def usd_per_hour(self, accelerator: str) -> set[Decimal]:
        """Every known price that a type had in the run."""
        return {usd for period in self.periods if (usd := period.usd_per_hour[accelerator]) is not None}


def read_usages(path: str | Path) -> tuple[Usage, ...]:
    """The runs of a file that ``simulate --json`` or ``compare --json`` wrote.

    Raises :class:`InputFileError` with the path of keys, also for an old result without idle times.
    """
    node = read_json(path)
    runs = node["runs"].elements() if "runs" in node else [node]
    if not runs:
        raise node.mistake("there is no run in it", expected="one at least")
    estimated = _estimated(node["speeds"]) if "speeds" in node else {}
    return tuple(replace(_usage(run), estimated=estimated) for run in runs)


def _estimated(node: Node) -> dict[str, float]:
    """The typical range of the estimated speeds on each type that has some."""
    rows = [row for row in node.elements() if row["estimated"].whole(low=0)]
    return {row["accelerator"].text(): row["times_wider"].number(low=1) for row in rows}


def _usage(node: Node) -> Usage:
    if "per_job" in node and "idle_device_s" not in node:
        hint = "run gavelx simulate or compare again, with --json"
        raise node.mistake("this result was written before there were bills: no idle_device_s", hint=hint)
    idle = _idle(node, node["policy"].text())
    uses: dict[int, Use] = {}
    for job in node["per_job"].elements():
        owner = job["owner"].text("") if "owner" in job else ""
        use = _use(job, idle, job["job_id"].whole(low=0), owner)
        if use.job_id in uses:
            raise job["job_id"].mistake(f"job {use.job_id} is there twice", expected="each job once")
        uses[use.job_id] = use
    repetitions = node["repetitions"].elements() if "repetitions" in node else ()
    return replace(
        idle, uses=tuple(uses.values()), repetitions=tuple(_repetition(each, idle.policy) for each in repetitions)
    )


def _repetition(node: Node, policy: str) -> Usage:
    """All jobs of a repetition as one."""
    idle = _idle(node, policy)
    return replace(idle, uses=(_use(node, idle),))


def _idle(node: Node, policy: str) -> Usage:
    """The prices of a run, and its idle devices: a usage without jobs."""
    idle_device_s = _seconds(node["idle_device_s"])
    prices, periods = "", tuple[Period, ...]()
    if "prices" in node:
        prices = node["prices"]["name"].text("")
        periods = tuple(_period(period, idle_device_s) for period in node["prices"]["periods"].elements())
        _check_sum(node["prices"]["periods"], [period.idle_device_s for period in periods], idle_device_s)
    return Usage(policy, (), idle_device_s, prices, periods)


def _use(node: Node, idle: Usage, job_id: int = 0, owner: str = "") -> Use:
    types, periods = idle.idle_device_s, len(idle.periods)
    device_s = _of_types(node["device_s"], types)
    of_period = {0: device_s}
    if periods > 1:
        parts = node["device_s_of_period"]
        of_period = {_index(part, key, periods): _of_types(part, types) for key, part in parts.items()}
        _check_sum(parts, of_period.values(), device_s)
    return Use(job_id, owner, device_s, of_period)


def _index(node: Node, key: str, periods: int) -> int:
    """The period that a key names."""
    if not (key.isascii() and key.isdigit() and int(key) < periods):
        raise node.mistake(f"there is no period {key}", expected=f"0 to {periods - 1}")
    return int(key)


def _period(node: Node, types: Mapping[str, float]) -> Period:
    usd_per_hour = {name: _usd(value) for name, value in node["usd_per_hour"].by_type().items()}
    idle_device_s = _of_types(node["idle_device_s"], types)
    return Period(node["from_s"].number(low=0), {**dict.fromkeys(types), **usd_per_hour}, idle_device_s)


def _usd(node: Node) -> Decimal | None:
    """A price exactly as it was written; None if it was unknown."""
    return None if node.value is None else Decimal(repr(node.number(low=0, high=USD_MAX)))


def _of_types(node: Node, types: Mapping[str, float]) -> dict[str, float]:
    """Device-seconds by type, of types of the cluster."""
    device_s = _seconds(node)
    for name in device_s:
        if name not in types:
            raise node.mistake(f"{name!r} is not in the cluster", expected="one of " + ", ".join(types))
    return device_s


def _check_sum(node: Node, parts: Collection[Mapping[str, float]], whole: Mapping[str, float]) -> None:
    """Raise :class:`InputFileError` if the seconds of the periods do not add up to the whole."""
    for name in {*whole, *(name for part in parts for name in part)}:
        seconds, total_s = sum(part.get(name, 0.0) for part in parts), whole.get(name, 0.0)
        if abs(seconds - total_s) > ROUNDING * max(1.0, total_s):
            raise node.mistake(f"{seconds:g} s of {name} in all", expected=f"{total_s:g} s, as in the whole run")


def _seconds(node: Node) -> dict[str, float]:
    return {name: value.number(low=0, high=SECONDS_MAX) for name, value in node.by_type().items()}
