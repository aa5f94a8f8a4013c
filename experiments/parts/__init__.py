"""The same bits on any number of processes: python -m experiments.parts bits, or cost."""
