"""python -m experiments.parts bits|cost [--write]: jobs with logical workers beside torch's own wrapper."""

import argparse
import sys
from pathlib import Path

from experiments.parts import bits, cost
from gavelx.files.atomic import write_atomically

PAGES = {"bits": bits.page, "cost": cost.page}
RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.parts", description=__doc__)
    parser.add_argument("what", choices=PAGES)
    parser.add_argument("--write", action="store_true", help="write experiments/results/parts_*.md")
    typed = parser.parse_args()
    text = PAGES[typed.what]()
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS / f"parts_{typed.what}.md", text)


if __name__ == "__main__":
    main()
