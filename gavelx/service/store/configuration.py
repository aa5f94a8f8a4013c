"""What the mechanism of a log is made with: rules, throughputs, prices. Part of the log, for replay depends on it.

A policy is not: it may change at any time, by an event.
"""

from dataclasses import dataclass, replace
from typing import Any

from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.overheads import Overhead, Overheads
from gavelx.prices import Prices
from gavelx.throughputs import Pairing, Setting, Size, Throughputs

PLAIN = (
    "round_s",
    "solve_interval_s",
    "small_change",
    "small_change_s",
    "turn",
    "backfill",
    "min_run_s",
    "protect_s",
    "max_failures",
    "retry_s",
    "final_s",
    "bad_server_jobs",
)
"""The rules that an operator may choose, and that are plain numbers."""
OF_OLD_LOGS = {"retry_s": 0.0, "final_s": 1e12, "bad_server_jobs": 0}
"""Rules that older logs do not name: these give the same leases again."""


@dataclass(frozen=True)
class Configuration:
    """Throughputs, prices, and the rules of the rounds; leases of a service are never longer than two of these.

    ``refine``: what leases measure beats the throughputs.
    """

    throughputs: Throughputs
    prices: Prices
    rules: Rules = DEFAULT
    refine: bool = True

    def to_json(self) -> dict[str, Any]:
        table, overheads = self.throughputs, self.rules.overheads
        return {
            "rules": {
                name: value for name in PLAIN if (value := getattr(self.rules, name)) != OF_OLD_LOGS.get(name)
            },
            "overheads": {"": _seconds(overheads.default)}
            | {name: _seconds(each) for name, each in overheads.by_type.items()},
            "table": table.name,
            "isolated": [[*setting, speed] for setting, speed in table.isolated.items()],
            "colocated": [[*pairing, speed] for pairing, speed in table.colocated.items()],
            **({"sizes": [[*size, speed] for size, speed in table.sizes.items()]} if table.sizes else {}),
            **({"noise_scale": dict(table.noise_scale)} if table.noise_scale else {}),
            "prices": dict(self.prices.usd_per_hour),
            "prices_name": self.prices.name,
            "refine": self.refine,
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> "Configuration":
        """What :meth:`to_json` wrote."""
        overheads = {name: Overhead(*each) for name, each in body["overheads"].items()}
        isolated = {Setting(*row[:-1]): row[-1] for row in body["isolated"]}
        colocated = {Pairing(*row[:-1]): row[-1] for row in body["colocated"]}
        rules = replace(
            DEFAULT, **OF_OLD_LOGS | body["rules"], overheads=Overheads(overheads.pop(""), overheads), sleep_s=0.0
        )
        sizes = {Size(*row[:-1]): row[-1] for row in body.get("sizes", ())}
        noise_scale = body.get("noise_scale", {})
        throughputs = Throughputs(isolated, colocated, body["table"], sizes=sizes, noise_scale=noise_scale)
        return Configuration(
            throughputs, Prices(body["prices"], body["prices_name"]), rules, body.get("refine", False)
        )


def _seconds(overhead: Overhead) -> list[float | None]:
    """Without the seconds of a resize where jobs are restarted to change their size."""
    return [*overhead] if overhead.resize_s is not None else [overhead.checkpoint_s, overhead.restart_s]
