"""The command line that all experiments share: choose points, run what is not done, write results."""

import argparse
import hashlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gavelx
from benchmarks.report import machine
from experiments.catalog import EXPERIMENTS
from experiments.experiment import Experiment, Selection
from experiments.points import Limits, why_not
from experiments.results import add_session, write_results
from experiments.runner import Outcome, Task, run, say
from experiments.store import Store
from gavelx.published import RULES

FOLDER = Path(__file__).parent / "results"
TINY_FOLDER = Path("out") / "experiments-tiny"


def main(
    arguments: Sequence[str] | None = None,
    experiments: Sequence[Experiment] = EXPERIMENTS,
    folder: Path = FOLDER,
    module: str = "experiments",
) -> int:
    """Run what is chosen, and report on all that is done; 1 if a point failed, 2 for a wrong option, else 0.

    ``experiments`` are those of one page, which is written to ``folder``; ``module`` is what makes that page.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    names = [experiment.name for experiment in experiments]
    options = _parser(module, names).parse_args(words)
    selection = _selection(options)
    chosen = [one for one in experiments if one.name in (options.only or names)]
    tasks = [task for experiment in chosen for task in experiment.tasks(selection)]
    if not tasks and not options.report:
        say("error: these options choose no point at all; expected policies and rates of the experiments named")
        return 2
    folder = options.out or (TINY_FOLDER if options.tiny else folder)
    store = Store(folder / "points.jsonl")
    failed = [] if options.report else _run(tasks, store, options, [module, *words])
    sections = [experiment.report(store, folder, options.tiny) for experiment in experiments]
    write_results(folder, sections, store, module)
    say(f"written: {folder / 'RESULTS.md'}, and the plots beside it")
    return 1 if failed else 0


def _run(tasks: Sequence[Task], store: Store, options: argparse.Namespace, words: Sequence[str]) -> list[Outcome]:
    """Run what can be; note what was run, how long and on which machine, also when it is interrupted."""
    reasons = {policy: why_not(policy) for policy in dict.fromkeys(task.point.policy for task in tasks)}
    for policy, reason in reasons.items():
        if reason:
            say(f"not run: {policy}: {reason}")
    possible = [task for task in tasks if not reasons[task.point.policy]]
    about, started, had = machine(), time.perf_counter(), len(store)
    failed: list[Outcome] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` ends it as Ctrl-C does
    try:
        failed = run(possible, store, Limits(options.limit_s, options.patience_h), options.jobs)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here")
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        session = {
            "command": shlex.join(["python", "-m", *words]),
            "points": len(store) - had,
            "wall_seconds": time.perf_counter() - started,
            "failed": [f"{outcome.point}: {outcome.failure}" for outcome in failed],
            "code": _code(),
            "machine": {**about, "load_after": os.getloadavg()},
        }
        if session["points"] or failed:
            add_session(store.path.parent, session)
    return failed


def _selection(options: argparse.Namespace) -> Selection:
    def chosen(values: list[Any] | None) -> tuple[Any, ...] | None:
        return tuple(values) if values else None

    return Selection(
        policies=chosen(options.policies),
        loads=chosen(options.rates),
        seeds=chosen(options.seeds),
        rules=tuple(options.rules),
        tiny=options.tiny,
    )


def _parser(module: str, names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description="Simulate the published experiments; go on where a run stopped."
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="FIGURE", help=f"of {', '.join(names)}")
    parser.add_argument("--policies", nargs="+", help="by name, or as a plot's label; all where none is named")
    parser.add_argument(
        "--rates",
        nargs="+",
        type=float,
        help="of the published ones: jobs per hour; for makespan, numbers of jobs",
    )
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--rules", nargs="+", choices=list(RULES), default=["published"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit-s", type=float, default=Limits.cpu_s, help="processor time for a point")
    parser.add_argument(
        "--patience-h", type=float, default=Limits.patience_h, help="simulated hours after the last measured job"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="a small cluster and few jobs: no results, but seconds"
    )
    parser.add_argument("--out", type=Path, help=f"folder for points and results (default: {FOLDER.name}/ here)")
    parser.add_argument("--report", action="store_true", help="run nothing; write results of what is done")
    return parser


def _code() -> str:
    """Names the code that made a point: a digest of the package's sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(gavelx.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
