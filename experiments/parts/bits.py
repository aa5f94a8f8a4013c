"""All cases: models x optimizers x parts x processes, fixed, live and restarted, against torch's wrapper."""

import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch

from experiments.experiment import markdown_table
from experiments.parts.models import MODELS, OPTIMIZERS
from experiments.parts.runs import Job, Schedule, differences, reference
from experiments.parts.scripts import Script, digest

STEPS = 12
"""The end of an epoch, whose last update is filled up, is within."""
LIVE: dict[int, Schedule] = {
    4: [(4, 2), (2, 4), (3, 7), (1, 9), (4, STEPS)],
    3: [(3, 2), (2, 4), (1, 7), (3, STEPS)],
}
RESTARTED: dict[int, Schedule] = {4: [(4, 3), (2, 7), (1, STEPS)], 3: [(3, 3), (2, 7), (1, STEPS)]}
HEADINGS = ["model", "optimizer", "parts", "1", "2", "3", "4", "live", "restarted", "SHA-256 of everything"]


def page() -> str:
    """The table of all cases; a cell lists what differs."""
    cases = product(LIVE, MODELS, OPTIMIZERS)
    rows = [_row(Script(((model, kind),), STEPS), parts) for parts, model, kind in cases]
    for model, kind in (("cnn", "sgd"), ("transformer", "adam")):
        rows.append(_row(Script(((model, kind),), STEPS, chunks=2), 4, ", accumulated"))
        rows.append(_row(Script(((model, kind),), STEPS, autocast=True), 4, ", bfloat16"))
    cells = [cell for row in rows for cell in row[3:9] if cell]
    return f"""# The bits of logical workers are those of DistributedDataParallel

Each job is compared with `DistributedDataParallel` on as many processes as it has parts: SHA-256 of the losses of
all parts at all {STEPS} steps, of parameters and buffers, of the optimizer, the scheduler, and the generators of
all parts. Columns 1 to 4: on so many processes throughout. *live*: 4→2→3→1→4 processes (3→2→1→3 with 3 parts)
while it runs. *restarted*: 4→2→1 (3→2→1) from checkpoints. *accumulated*: each batch in two pieces. *bfloat16*:
under autocast.

{markdown_table(HEADINGS, rows)}

{cells.count("equal")} of {len(cells)} are equal. torch {torch.__version__}, gloo, CPU
({torch.backends.cpu.get_cpu_capability()}), one thread a process.

    python -m experiments.parts bits --write
"""


def _row(script: Script, parts: int, note: str = "") -> list[str]:
    expected = reference(script, parts)

    def cell(run: Callable[[Job], None]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            job = Job(script, parts, Path(folder))
            run(job)
            return ", ".join(differences(job.reached(), expected)) or "equal"

    fixed = [cell(lambda job, count=count: job.live([(count, STEPS)])) for count in range(1, parts + 1)]  # type: ignore[misc]
    live = cell(lambda job: job.live(LIVE[parts]))
    restarted = cell(lambda job: job.restarted(RESTARTED[parts]))
    ((model, kind),) = script.cases
    row = [model + note, kind, str(parts), *fixed, *[""] * (4 - parts), live, restarted, digest(expected)[:12]]
    sys.stderr.write(" ".join(row) + "\n")
    return row
