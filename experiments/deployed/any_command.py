"""python -m experiments.deployed.any_command: do commands of any kind run, if nothing is said of them?

Scripts of :mod:`experiments.deployed.commands` are submitted to a real scheduler with the speeds that ``gavelx
serve`` begins with, and to real and emulated agents, without a type, a length or a speed:

    twenty     kinds of commands, on three types of devices
    liars      twenty commands whose output lies, on two types
    crowded    three commands that save nothing, on one device: none ends within its turn

Of each it is checked that it ends and how long it waits for its first lease; of those that count, that the
speeds that leases measured are those by their own clocks; of the others, that the believed ranges hold; and
that bills are of the seconds for which devices were held, whatever was printed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.stats import binom

from experiments.deployed.commands import COUNTING, MAY_FAIL, crowded, liars, submissions, true_speed, twenty
from experiments.deployed.local import DeployedError, LocalCluster, Machine, Progress, positive, run, say
from experiments.deployed.page import markdown, put, this_machine
from gavelx.files.throughput_tables import load_throughputs
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.lengths import LEVEL, Lengths
from gavelx.prices import Prices
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_history
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.throughputs import Setting

WITHIN, OFF_BY_USD = 0.15, 1e-6
BY_CHANCE = 0.01
"""Ranges are wrong if right ones held so few only in one case of a hundred: of 18 at 90 %, less than 13."""
PATIENCE_S = 240.0
PACES = {"cpu": 10.0, "v100": 30.0}
"""Steps per second of the scripts that count, on the real agents of each type, if the machine is not busy."""
TIMING = Timing(heartbeat_s=0.25, valid_for_s=8.0, grace_s=1.0, measured_s=1.5, measured_again_s=3.0)
PARTS: Mapping[str, tuple[Machine, ...]] = {
    "twenty": (
        Machine("one", "cpu", 3, environment={"PACE": str(PACES["cpu"])}),
        Machine("two", "v100", 2, environment={"PACE": str(PACES["v100"])}),
        Machine("three", "k80", 2, emulate=True),
    ),
    "liars": (Machine("one", "cpu", 6), Machine("two", "v100", 6)),
    "crowded": (Machine("one", "cpu", environment={"PACE": "12"}),),
}


@dataclass(frozen=True)
class Ran:
    """What became of a command; ``measured`` are the speeds that its leases measured."""

    name: str
    state: str
    reason: str
    waited_s: float
    took_s: float
    held_s: float
    spent_usd: float
    launches: int
    lost_s: float
    steps: float
    worked_s: float  # on the fastest type: its length
    measured: Mapping[str, float]


@dataclass(frozen=True)
class Found:
    """One part of the experiment, and what is wrong with it."""

    part: str
    commands: tuple[Ran, ...]
    speed_ratios: Mapping[str, float] = field(default_factory=dict)  # measured against the truth
    ranges_held: tuple[int, int] = (0, 0)  # of speeds on types where it was not measured; so many of so many
    lengths_held: tuple[int, int] = (0, 0)  # of lengths believed from the other commands

    @property
    def wrong(self) -> list[str]:
        """Why this is not as it should be; nothing if it is."""
        found = [f"{one.name} {one.state}: {one.reason}" for one in self.commands if not _may(one)]
        found += [f"{one.name} was never launched" for one in self.commands if not one.launches]
        for one in self.commands:
            if abs(one.spent_usd - one.held_s / 3600.0) > OFF_BY_USD:
                found.append(f"{one.name} held a device for {one.held_s:.2f} s and paid ${one.spent_usd:.6f}")
        found += self.wrong_by_the_clock
        if self.part == "crowded" and sum(one.launches > 1 for one in self.commands) < 2:
            found.append("fewer than two commands were preempted")
        return found

    @property
    def wrong_by_the_clock(self) -> list[str]:
        """The part of it that may be so as the machine had other things to do; longer commands then say more."""
        found = list[str]()
        for name, ratio in self.speed_ratios.items():
            if abs(ratio - 1.0) > WITHIN:
                found.append(f"the speed of {name} is {ratio:.2f} times the true one")
        for what, (held, of) in (("speeds", self.ranges_held), ("lengths", self.lengths_held)):
            if of and binom.cdf(held, of, LEVEL) < BY_CHANCE:
                found.append(f"believed ranges hold {held} of {of} {what}")
        if self.part == "twenty" and len(self.speed_ratios) < len(COUNTING) // 2:
            found.append(f"only {len(self.speed_ratios)} speeds were measured")
        return found

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"wrong": self.wrong}


def _may(one: Ran) -> bool:
    return one.state == "complete" or (one.state == "failed" and one.name in MAY_FAIL)


def configuration(round_s: float) -> Configuration:
    """That of ``gavelx serve``, at a dollar an hour for any device; failed jobs wait for a round at first."""
    prices = Prices(dict.fromkeys(("cpu", "v100", "k80"), 1.0))
    return Configuration(
        load_throughputs("simulation"), prices, replace(DEFAULT, round_s=round_s, retry_s=round_s)
    )


def scripts_of(part: str, long_s: float, times: int = 1) -> dict[str, str]:
    if part == "liars":
        return liars()
    return crowded(times) if part == "crowded" else twenty(long_s)


async def carry_out(part: str, folder: Path, round_s: float, long_s: float, times: int = 1) -> Found:
    """Submit the commands of a part, and wait until all are over. Raises :class:`DeployedError`.

    Those of ``crowded`` are ``times`` as long.
    """
    specs = submissions(folder, scripts_of(part, long_s, times))
    async with LocalCluster(folder / "cluster", configuration(round_s), timing=TIMING) as cluster:
        await cluster.join(*PARTS[part])
        await cluster.submit(*specs.values())
        await cluster.until_ended(PATIENCE_S + 2 * long_s, Progress(part, len(specs)), at_least=len(specs))
    return found_in(part, list(specs), str(folder / "cluster" / "log"))


def found_in(part: str, names: Sequence[str], log: str) -> Found:
    """What the log of a run says of these commands, which were submitted in this order.

    The clocks of the scripts lie in the folder that has the cluster's.
    """
    state, history = read_history(log)
    commands = list[Ran]()
    for name, (job_id, known) in zip(names, state.jobs.items(), strict=True):
        leases, arrival_s = history.of(job_id), known.job.arrival_s
        measured = {way.accelerator: state.speeds[way] for way in _measured(state, known.job.job_type)}
        commands.append(
            Ran(
                name,
                known.ended,
                known.reason,
                waited_s=min((held.start_s for held in leases), default=known.ended_s) - arrival_s,
                took_s=known.ended_s - arrival_s,
                held_s=sum(held.said_s for held in leases),
                spent_usd=known.spent_usd,
                launches=known.launches,
                lost_s=known.lost_s,
                steps=known.steps_done,
                worked_s=known.worked_s,
                measured=measured,
            )
        )
    if part != "twenty":
        return Found(part, tuple(commands))
    ratios, ranges_held = _speeds(state, commands, Path(log).parents[1])
    return Found(part, tuple(commands), ratios, ranges_held, _lengths(state))


def _measured(state: State, job_type: str) -> list[Setting]:
    return [way for way in state.online if isinstance(way, Setting) and way.job_type == job_type]


def _speeds(state: State, commands: Sequence[Ran], scripts: Path) -> tuple[dict[str, float], tuple[int, int]]:
    """Measured speeds against the truth; and how many true ones are within the ranges of estimates."""
    ratios, held = dict[str, float](), list[bool]()
    job_type_of = {known.spec["type"]: known.job.job_type for known in state.jobs.values()}
    for one in commands:
        if one.name not in COUNTING or not one.measured:
            continue
        for accelerator, pace in PACES.items():
            truth = true_speed(scripts / one.name, pace) or pace
            if accelerator in one.measured:
                ratios[f"{one.name} on {accelerator}"] = one.measured[accelerator] / truth
            else:
                lower, upper = state.untold.ranges[Setting(job_type_of[one.name], accelerator)]
                held.append(lower <= truth <= upper)
    return ratios, (sum(held), len(held))


def _lengths(state: State) -> tuple[int, int]:
    """How many commands are as long as is believed of them from the other ones of their owner."""
    ended, held = [known for known in state.jobs.values() if known.ended == "complete"], 0
    for known in ended:
        lengths = Lengths()
        for other in ended:
            if other is not known:
                lengths.ended(other.job, other.worked_s)
        left = lengths.left([known.job], np.zeros(1), np.zeros(1))
        held += bool(left.lower[0] <= known.worked_s <= left.upper[0])
    return held, len(ended)


def table(found: Sequence[Found]) -> str:
    """In Markdown."""
    titles = ("command", "state", "waited, s", "took, s", "held, s", "launches", "lost, s", "steps", "measured")
    text = ""
    for part in found:
        rows = [
            (
                *(f"`{one.name}`", one.state, f"{one.waited_s:.1f}", f"{one.took_s:.1f}", f"{one.held_s:.1f}"),
                *(f"{one.launches}", f"{one.lost_s:.1f}", f"{one.steps:.5g}"),
                ", ".join(f"{name} {speed:.4g}/s" for name, speed in one.measured.items()),
            )
            for one in part.commands
        ]
        text += f"`{part.part}`: {_in_words(part)}\n\n{markdown(titles, rows, left=2)}\n"
    return text


def _in_words(part: Found) -> str:
    ended = sum(map(_may, part.commands))
    words = [f"{ended} of {len(part.commands)} end as they should"]
    words += [f"the longest wait for a first lease is {max(one.waited_s for one in part.commands):.1f} s"]
    if part.speed_ratios:
        ratios = part.speed_ratios.values()
        words += [f"{len(ratios)} measured speeds are {min(ratios):.3f} to {max(ratios):.3f} of the true ones"]
        words += [f"ranges hold {part.ranges_held[0]} of {part.ranges_held[1]} other speeds"]
        words += [f"and {part.lengths_held[0]} of {part.lengths_held[1]} lengths"]
    return ", ".join(words) + ("." if not part.wrong else "; wrong: " + "; ".join(part.wrong) + ".")


def main(argv: Sequence[str] | None = None) -> int:
    """0 if all is as it should be, 1 if it is not."""
    options = _parser().parse_args(argv)
    found = list[Found]()
    try:
        for part in options.only:
            round_s = options.round / 4 if part == "crowded" else options.round
            with tempfile.TemporaryDirectory() as folder:
                found.append(run(carry_out(part, Path(folder), round_s, options.long_s)))
    except DeployedError as error:
        say(f"failed: {error}")
        return 1
    print(json.dumps([part.to_json() for part in found], indent=2) if options.json else table(found))
    if options.write:
        words = sys.argv[1:] if argv is None else argv
        put("any_command", words, table(found) + this_machine(), [part.to_json() for part in found])
    for part in found:
        for problem in part.wrong:
            say(f"{part.part}: {problem}")
    return 1 if any(part.wrong for part in found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.deployed.any_command", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="some of the parts")
    parser.add_argument("--round", type=positive, default=4.0, help="seconds; a quarter of it for crowded")
    parser.add_argument("--long-s", type=positive, default=12.0, help="seconds that the longest command takes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="put table and figures beside this file")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
