"""python -m experiments.live_resize.losses [--seeds 4] [--write]: what live changes of the batch do to the loss.

A job of one process and a batch of 32 goes over to two processes and a batch of 128, with the learning rate by
the linear rule: at once in one epoch, or by 64 two epochs before. Beside it: the same at once with the learning
rate as it was, and no change at all. Losses are those of all samples after each epoch. (Figures 3, 13 and 14 of
ONES, SC'21, in small.)
"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.experiment import markdown_table
from experiments.live_resize.server import Script, a_server
from experiments.plots import png
from gavelx.files.atomic import write_atomically
from gavelx.report.plots import GRID, STYLE, policy_style

BATCH, EPOCHS = 32, 12
RESULTS = Path(__file__).parents[1] / "results"
ABOUT = f"""Made by `python -m experiments.live_resize.losses --write`: real processes and an agent, on a CPU. Loss
of all samples after {EPOCHS} epochs, means over the seeds. From epoch 5 on there is a batch of 128 on two
processes in place of {BATCH} on one."""


class Change(NamedTuple):
    """In this epoch the job goes over to so many processes and samples of an update."""

    epoch: int
    processes: int
    batch: int


class Schedule(NamedTuple):
    """Changes, and the rule of the learning rate."""

    changes: tuple[Change, ...] = ()
    rates: str = "linear"


AT_ONCE = (Change(5, 2, 128),)
SCHEDULES = {
    "as submitted": Schedule(),
    "gradual": Schedule((Change(3, 2, 64), Change(5, 2, 128))),
    "at once": Schedule(AT_ONCE),
    "at once, rate as before": Schedule(AT_ONCE, "none"),
}


def losses(schedule: Schedule, seed: int) -> list[float]:
    """The loss after each epoch."""
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"changed-{n}" for n in range(len(schedule.changes))]
        changes = [(change.epoch, str(file)) for change, file in zip(schedule.changes, files, strict=True)]
        told = json.dumps({"seed": seed, "batch": BATCH, "epochs": EPOCHS, "changes": changes})
        elasticity = f"batch:1-4/{BATCH}-{8 * BATCH}/{schedule.rates}"
        script = Script("experiments.live_resize.loss_job", elasticity, float("inf"), {"LOSS_JOB": told})
        with a_server(script) as server:
            server.launch(1, BATCH)
            for change, file in zip(schedule.changes, files, strict=True):
                server.wait(lambda n=change.epoch: len(server.lines()) >= n, f"epoch {change.epoch}")
                server.resize(change.processes, change.batch)
                file.touch()
            server.end()
            lines = [json.loads(line) for line in server.lines()]
    assert [line["epoch"] for line in lines] == list(range(EPOCHS)), lines
    return [line["loss"] for line in lines]


def report(found: dict[str, list[list[float]]]) -> str:
    """The table: the last loss of each seed, and its distance to the gradual and to the unchanged run."""
    rows = []
    for name, runs in found.items():
        last = [run[-1] for run in runs]
        away = [
            [f"{one / other[-1] - 1.0:+.1%}" for one, other in zip(last, found[beside], strict=True)]
            for beside in ("gradual", "as submitted")
        ]
        jump = max(later / earlier for run in runs for earlier, later in pairwise(run)) - 1.0
        rows.append([name, f"{fmean(last):.4f}", *(" ".join(one) for one in away), f"{jump:+.1%}"])
    head = ["schedule", "loss", "against gradual, by seed", "against as submitted", "worst rise in an epoch"]
    return markdown_table(head, rows)


def plot(found: dict[str, list[list[float]]]) -> bytes:
    """Mean losses by epoch, and the seeds between which they are."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.0, 3.6), layout="constrained")
        axes = figure.subplots()
        for position, (name, runs) in enumerate(found.items()):
            color, dashes = policy_style(position)
            epochs, by_epoch = range(1, EPOCHS + 1), list(zip(*runs, strict=True))
            lower, upper = ([end(of) for of in by_epoch] for end in (min, max))
            axes.fill_between(epochs, lower, upper, color=color, alpha=0.12, linewidth=0)
            axes.plot(epochs, [fmean(of) for of in by_epoch], color=color, linestyle=dashes, label=name)
        axes.set_xlabel("epochs done")
        axes.set_ylabel("loss of all samples")
        axes.grid(True, color=GRID, alpha=0.3)
        axes.legend(frameon=False)
        return png(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.live_resize.losses")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--write", action="store_true", help=f"write into {RESULTS.relative_to(Path.cwd())}")
    typed = parser.parse_args(arguments)
    found = {name: [losses(one, seed) for seed in range(typed.seeds)] for name, one in SCHEDULES.items()}
    text = f"# Losses of a job whose batch changes while it runs\n\n{ABOUT}\n\n{report(found)}\n"
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS / "live_resize_losses.md", text)
        write_atomically(RESULTS / "live_resize_losses.json", json.dumps(found) + "\n")
        write_atomically(RESULTS / "live_resize_losses.png", plot(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
