"""The makespan bars of Gavel (OSDI'20, section 7.3): 100 to 700 jobs, all there at the start.

    python -m experiments.makespan [--policies makespan ...] [--rates 100 ...] [--seeds 0]

Each point: 36 V100, 36 P100 and 36 K80; jobs of one or several devices; when the last of them is complete. Here
``--rates`` are numbers of jobs. The published FIFO had a slip that sent every job to the V100s while others idled:
its bars are those of FIFO on 36 V100.
"""

from experiments.curves import Curve
from experiments.sweep import Static

MAKESPAN = Static(
    name="makespan",
    title="Makespan of jobs that are all there at the start",
    trace="static-multiple",
    multi_gpu=True,
    curves=(
        Curve("FIFO, on V100 alone", "fifo", "FIFO", "makespan", cluster="v100=36"),
        Curve("Gandiva", "gandiva", "Gandiva", "makespan"),
        Curve("makespan, aware", "makespan", "Gavel", "makespan"),
        Curve("makespan, aware, packed", "packed(makespan)", "Gavel w/ SS", "makespan"),
    ),
)
