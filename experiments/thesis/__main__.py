"""python -m experiments.thesis [--only cost ...]: the thesis's figures again; see README.md"""

from pathlib import Path

from experiments.command import main
from experiments.thesis.catalog import THESIS

if __name__ == "__main__":
    folder = Path(__file__).parent / "results"
    raise SystemExit(main(experiments=THESIS, folder=folder, module="experiments.thesis"))
