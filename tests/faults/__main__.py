"""Runs in which everything goes wrong, on real processes: ``python -m tests.faults --seeds 0:50``."""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from gavelx.service.store.log import Log
from tests.faults.plan import plan_of
from tests.faults.run import LostError, play
from tests.faults.virtual import play as play_virtually


def main(words: Sequence[str] | None = None) -> int:
    """0 if nothing was lost, 1 if a seed failed."""
    options = _options(words)
    first, last = options.seeds
    failed, virtually = [], " VIRTUAL=1" if options.virtual else ""
    for seed in range(first, last):
        started = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix=f"gavelx-chaos-{seed}-", dir=options.keep))
        try:
            _play(seed, folder, virtual=options.virtual)
        except Exception:
            failed.append(seed)
            traceback.print_exc()
            print(
                f"seed {seed} FAILED; what it left is in {folder}\n  again: make chaos SEED={seed}{virtually}",
                flush=True,
            )
        else:
            what = "" if options.virtual else f", {resizes(folder)} resizes"
            print(f"seed {seed}: nothing lost in {time.monotonic() - started:.0f} s{what}", flush=True)
            if options.keep is None:
                shutil.rmtree(folder, ignore_errors=True)
    print(f"{last - first - len(failed)} of {last - first} seeds passed{f'; failed: {failed}' if failed else ''}")
    return 1 if failed else 0


def _play(seed: int, folder: Path, *, virtual: bool) -> None:
    """One run. Raises what is wrong with it."""
    if not virtual:
        play(plan_of(seed), folder)
    elif problems := play_virtually(seed):
        raise LostError("\n".join(problems[:9]))


def resizes(folder: Path) -> int:
    """How many jobs went over to another size while they ran."""
    log = Log(str(folder / "service"), read_only=True)
    try:
        return sum(record.kind == "Resized" for record in log.read())
    finally:
        log.close()


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=(0, 10), metavar="FROM:TO", help="run all these (0:10)")
    parser.add_argument("--virtual", action="store_true", help="on virtual time, without processes")
    parser.add_argument("--keep", type=Path, help="keep what every run leaves in this folder")
    return parser.parse_args(words)


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    return int(first), int(last) if colon else int(first) + 1


if __name__ == "__main__":
    sys.exit(main())
