"""Figures 10 and 11 of Gavel (OSDI'20): jobs that keep coming, three in ten of which need 2, 4 or 8 devices.

    python -m experiments.continuous_multiple [--policies fifo ...] [--rates 1.8 ...] [--seeds 0]

Each point is as in `continuous_single`, but for the jobs. AlloX, which is for jobs of one device, is not here.
"""

from experiments.continuous_single import FIFO, FTF, LAS
from experiments.curves import Curve
from experiments.sweep import Continuous

CONTINUOUS_MULTIPLE = Continuous(
    name="continuous_multiple",
    title="Jobs of one or several devices that keep coming (figures 10 and 11)",
    trace="continuous-multiple",
    multi_gpu=True,
    curves=(
        Curve("LAS, agnostic", "agnostic(max_min_fairness)", "max_min_fairness", LAS),
        Curve("LAS, aware", "max_min_fairness", "max_min_fairness_perf", LAS),
        Curve("LAS, aware, packed", "packed(max_min_fairness)", "max_min_fairness_packed", LAS),
        Curve("Gandiva", "gandiva", "gandiva", LAS),
        Curve("FTF, agnostic", "agnostic(finish_time_fairness)", "finish_time_fairness", FTF),
        Curve("FTF, aware", "finish_time_fairness", "finish_time_fairness_perf", FTF),
        Curve("FIFO, V100s first", "experiments.v100_first:v100_first", "fifo", FIFO),
        Curve("FIFO, aware", "fifo", "fifo_perf", FIFO),
        Curve("FIFO, aware, packed", "packed(fifo_program)", "fifo_packed", FIFO),
        Curve("isolated", "isolated", "isolated", panel=""),
    ),
)
