"""One max-min allocation of very many jobs of few kinds: processor seconds, and the most memory with the inputs.

    python -m benchmarks.many                        # 10,000,000 jobs of the 26 kinds of the real table
    python -m benchmarks.many --jobs 1000000 --json OUT

``--policy`` names another one.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.child import peak_mb
from benchmarks.instances import real_table, snapshot_of
from gavelx.files.atomic import write_atomically
from gavelx.policies import load_policy


def many(jobs: int, policy: str) -> dict[str, float]:
    """Ask once, after a small question that loads all that is needed."""
    asked = load_policy(policy)
    asked.allocate(snapshot_of(real_table(64, seed=1)))
    snapshot = snapshot_of(real_table(jobs, seed=1))
    started = time.process_time()
    certificate = asked.allocate(snapshot).certificate
    cpu_s = time.process_time() - started
    assert certificate.objective is not None
    assert certificate.bound is not None
    gap = abs(certificate.bound - certificate.objective) / abs(certificate.bound)
    return {"jobs": jobs, "cpu_seconds": cpu_s, "peak_mb": peak_mb(), "gap": gap}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many", description="very many jobs of few kinds")
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--policy", default="max_min_fairness")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    row = many(options.jobs, options.policy)
    print(f"{row['jobs']:,} jobs: {row['cpu_seconds']:.3g} s, {row['peak_mb']:,.0f} MB, gap {row['gap']:.2g}")
    if options.json:
        write_atomically(options.json, json.dumps({"machine": report.machine(), **row}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
