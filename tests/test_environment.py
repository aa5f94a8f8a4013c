"""Tests are the same whatever shell they are run from."""

import os
import subprocess
import sys
from pathlib import Path

SHELL = {
    "GAVELX_STATE": "/var/lib/gavelx",
    "GAVELX_SCHEDULER": "cluster:7070",
    "GAVELX_COMPILED": "1",
    "SLURM_JOB_ID": "7",
    "RANK": "3",
    "LOCAL_RANK": "3",
    "COLUMNS": "211",
    "FORCE_COLOR": "1",
}
PRINT = "import os, tests.conftest; print({name: os.environ.get(name) for name in %r})"


def test_no_test_sees_the_cluster_job_or_terminal_of_the_shell() -> None:
    code = PRINT % [*SHELL]
    seen = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1],
        env=os.environ | SHELL,
        check=True,
        capture_output=True,
        text=True,
    )
    assert seen.stdout.strip() == str(dict.fromkeys(SHELL) | {"GAVELX_COMPILED": "0"})
