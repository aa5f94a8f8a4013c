"""Run many cases, and say which fail and how to repeat them: ``python -m tests.swarm --seeds 0:2000``."""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path

from tests.swarm.cases import case_of
from tests.swarm.run import named, outcome, run


def main(words: Sequence[str] | None = None) -> int:
    """0 if all went well, 1 if a seed failed."""
    options = _options(words)
    if options.seed is not None:
        return _one(options.seed, options.log)
    failed, started = 0, time.monotonic()
    seeds = range(*options.seeds)
    for count, (seed, problem) in enumerate(_outcomes(seeds, options.workers), start=1):
        if problem:
            failed += 1
            print(f"\n{case_of(seed)}\n  {problem}\n  again: make simulate SEED={seed}", flush=True)
        if sys.stderr.isatty() and (count % 10 == 0 or count == len(seeds)):
            seconds = time.monotonic() - started
            print(
                f"\r{count}/{len(seeds)} seeds, {failed} failed, {seconds:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{len(seeds) - failed} of {len(seeds)} seeds passed")
    return 1 if failed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="run this one, and say what it is")
    which.add_argument("--seeds", type=_range, default=(0, 100), metavar="FROM:TO", help="run all these (0:100)")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--log", type=Path, help="with --seed: write every event and command to this file")
    options = parser.parse_args(words)
    if options.log and options.seed is None:
        parser.error("--log needs --seed")
    return options


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    return int(first), int(last)


def _one(seed: int, log: Path | None) -> int:
    case = case_of(seed)
    print(case)
    with log.open("w", encoding="utf-8", newline="\n") if log else nullcontext() as file:
        try:
            result = run(case, file.write if file else lambda text: None)
        except Exception as problem:
            traceback.print_exc()
            print(f"  {named(problem)}\n  again: make simulate SEED={seed}")
            return 1
    summary = result.summary()
    print(
        *(f"  {name}: {summary[name]}" for name in ("jobs_completed", "given_up", "restarts", "cost_usd")),
        sep="\n",
    )
    return 0


def _outcomes(seeds: Sequence[int], workers: int) -> Iterator[tuple[int, str]]:
    """Every seed and its problem, if there is one, as they come."""
    if workers == 1:
        yield from map(outcome, seeds)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(outcome, seeds, chunksize=8)


if __name__ == "__main__":
    sys.exit(main())
