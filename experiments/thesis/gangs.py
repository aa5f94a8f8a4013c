"""Does fairness in dollars save any where jobs are gangs? Real traces, in which jobs need 1, 2, 4 or 8 devices.

    python -m experiments.thesis --only gangs

A gang has all its devices at once, on as few servers as can hold it if they can be cleared. So it cannot have any
share of time that a policy plans, and a few wide ones decide about a trace. Each setting is one run: a difference
of a per cent or two may be luck.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from experiments.experiment import Selection, markdown_table
from experiments.points import Point, Record
from experiments.runner import Task
from experiments.store import Store
from experiments.thesis.honest import FIRST, OTHERS, RULES, STRICT, Contender, capped
from experiments.thesis.settings import PRICES


class Setting(NamedTuple):
    """A trace on so many devices of each of three types."""

    trace: str
    devices: int
    per_server: int = 4
    prices: str = PRICES

    @property
    def says(self) -> str:
        servers = f", servers of {self.per_server}" * (self.per_server != 4)
        return f"{self.trace}, {self.devices}{servers}{', GCP prices' * (self.prices != PRICES)}"


SETTINGS = (
    Setting("gavel_msr_23dbec", 8),
    Setting("gavel_artifact_evaluation", 8),
    Setting("gavel_max_min_fairness", 8),
    Setting("shockwave_120", 4),
    Setting("shockwave_120", 8),
    Setting("shockwave_120", 8, per_server=8),
    Setting("shockwave_120", 8, prices="gcp"),
    Setting("shockwave_120", 16),
    Setting("shockwave_220", 12),
    Setting("shockwave_220", 24),
    Setting("gavel_msr_e13805", 12),
    Setting("gavel_msr_2869ce", 12),
)
TINY = 2
FAIREST = next(one for one in OTHERS if (one.policy, one.rules) == ("finish_time_fairness", "default"))
CONTENDERS = (FIRST, capped(STRICT), FAIREST)
TITLES = (
    *("trace, devices of each type", "jobs", "finish-time fairness, $", "ours", f"ours, rho_cap {STRICT:g}"),
    *("whole bill", "mean completion", "worst rho, ours / FTF", "worst mu", "worse off"),
)


@dataclass(frozen=True)
class Gangs:
    """Ours, as it is and with a lower cap, against finish-time fairness."""

    name: str = "gangs"

    def tasks(self, selection: Selection) -> list[Task]:
        return [
            Task(self.point(contender, setting), RULES[contender.rules])
            for setting in SETTINGS[: TINY if selection.tiny else None]
            for contender in CONTENDERS
            if selection.wants_policy(contender.policy, contender.says)
        ]

    def point(self, contender: Contender, setting: Setting) -> Point:
        return Point(
            policy=contender.policy,
            cluster=",".join(f"{name}={setting.devices}" for name in ("v100", "p100", "k80")),
            rate=0.0,
            rules=contender.rules,
            prices=setting.prices,
            trace=setting.trace,
            devices_per_server=setting.per_server,
        )

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        done = [task.point in store.records for task in self.tasks(Selection(tiny=tiny))]
        return (
            "\n\n".join(
                [
                    "## Fairness in dollars, gangs",
                    "Real traces with gangs, servers of 4 and prices of the thesis where nothing else is said. "
                    f"{sum(done)} of {len(done)} points are done. *Ours* is `{FIRST.policy}`; differences are to "
                    "`finish_time_fairness` (FTF) under the same rules. Cost is that of devices while jobs held "
                    "them, the *whole bill* that of all devices until the last job is done. *Worse off* is the "
                    "part of jobs whose rho is above 1.",
                    markdown_table(TITLES, list(self._rows(store, tiny))),
                ]
            )
            + "\n"
        )

    def _rows(self, store: Store, tiny: bool) -> Iterator[list[str]]:
        """A setting a line, of those that are done; then the means."""
        compared = []
        for setting in SETTINGS[: TINY if tiny else None]:
            points = [self.point(contender, setting) for contender in CONTENDERS]
            if all(point in store.records for point in points):
                ours, strict, theirs = (store.records[point] for point in points)
                compared.append([_change("cost_usd", ours, theirs), _change("cost_usd", strict, theirs)])
                compared[-1] += [_change("total_usd", ours, theirs), _change("jct_mean_s", ours, theirs)]
                cells = [f"{change:+.1%}" for change in compared[-1]]
                usd = f"{theirs['cost_usd']:,.1f}"
                yield [setting.says, str(ours["jobs_total"]), usd, *cells, *_worst(ours, theirs)]
        if compared:
            yield [
                "mean",
                "",
                "",
                *(f"{fmean(changes):+.1%}" for changes in zip(*compared, strict=True)),
                "",
                "",
                "",
            ]


def _change(figure: str, ours: Record, theirs: Record) -> float:
    return float(ours[figure] / theirs[figure] - 1.0)


def _worst(ours: Record, theirs: Record) -> list[str]:
    """What the worst off job came to under each, and how many were worse off."""
    cells = [f"{ours[figure]:.2f} / {theirs[figure]:.2f}" for figure in ("rho_max", "mu_max")]
    return [*cells, f"{ours['unfair_fraction']:.1%} / {theirs['unfair_fraction']:.1%}"]


GANGS = Gangs()
