"""python -m experiments [--only FIGURE ...] [--jobs 2]: every experiment; see README.md"""

from experiments.command import main

if __name__ == "__main__":
    raise SystemExit(main())
