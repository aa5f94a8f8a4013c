"""python -m benchmarks [family ...] [--pairs 5] [--sizes 2048 400x36 ...] [--budget-s 600] [--json OUT]"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.families import BENCHMARKS, Size
from benchmarks.harness import run, say, text_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the families asked for; 1 if a pair is wrong or a benchmark failed, 0 otherwise (missed targets too)."""
    options = _parser().parse_args(arguments)
    about, rows = report.machine(), []
    chosen = [bench for bench in BENCHMARKS if not options.family or bench.name in options.family]
    for benchmark in chosen:
        for size in options.sizes or benchmark.sizes:
            say(f"{benchmark.name} {text_of(size)}: {benchmark.says}")
            rows.append(run(benchmark, size, options.pairs, options.budget_s).to_json())
            if options.json:
                report.save(options.json, about, rows)
    print(report.terminal(rows))
    if options.results_md:
        files = sorted((report.FOLDER / "results").glob("*.json"))
        (report.FOLDER / "RESULTS.md").write_text(report.markdown(files), encoding="utf-8")
    bad = [row for row in rows if row.get("wrong") or row["failed"].startswith(("failed", "not done"))]
    return 1 if bad else 0


def _size(text: str) -> Size:
    return tuple(int(part) for part in text.replace(",", "").split("x"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="the published formulation against ours"
    )
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("family", nargs="*", help=f"some of {', '.join(names)}; all if none is named")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of answers for each size")
    parser.add_argument("--sizes", type=_size, nargs="+", help="jobs, or jobs x machines: 2048, 400x36")
    parser.add_argument("--budget-s", type=float, default=600.0, help="begin no new pair of a size after this")
    parser.add_argument("--json", type=Path, help="write every pair to this file")
    parser.add_argument("--results-md", action="store_true", help="write RESULTS.md anew from results/*.json")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
