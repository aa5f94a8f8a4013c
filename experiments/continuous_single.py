"""Figure 9 of Gavel (OSDI'20): jobs of one device each that keep coming; with first come, first served beside it.

    python -m experiments.continuous_single [--policies max_min_fairness ...] [--rates 2.8 ...] [--seeds 0]

Each point: 36 V100, 36 P100 and 36 K80; random jobs (section 7.1 of the paper) at so many per hour; mean
completion time of jobs 4,000 to 4,999, while others keep coming until those are complete. Seeds 0, 1 and 2.
"""

from experiments.curves import Curve
from experiments.sweep import Continuous

LAS, FTF, FIFO = "least attained service", "finish-time fairness", "first come, first served"

CONTINUOUS_SINGLE = Continuous(
    name="continuous_single",
    title="Jobs of one device that keep coming (figure 9)",
    trace="continuous-single",
    multi_gpu=False,
    curves=(
        Curve("LAS, agnostic", "agnostic(max_min_fairness)", "max_min_fairness", LAS),
        Curve("LAS, aware", "max_min_fairness", "max_min_fairness_perf", LAS),
        Curve("LAS, aware, packed", "packed(max_min_fairness)", "max_min_fairness_packed", LAS),
        Curve("AlloX", "allox", "allox", LAS),
        Curve("Gandiva", "gandiva", "gandiva", LAS),
        Curve("FTF, agnostic", "agnostic(finish_time_fairness)", "finish_time_fairness", FTF),
        Curve("FTF, aware", "finish_time_fairness", "finish_time_fairness_perf", FTF),
        Curve("FIFO, V100s first", "experiments.v100_first:v100_first", "fifo", FIFO),
        Curve("FIFO, aware", "fifo", "fifo_perf", FIFO),
        Curve("FIFO, aware, packed", "packed(fifo_program)", "fifo_packed", FIFO),
        Curve("isolated", "isolated", "isolated", panel=""),
    ),
)
