from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.machines import kill_all


@pytest.fixture(autouse=True)
def no_jobs_left(tmp_path: Path) -> Iterator[None]:
    """Whatever a test left running is killed."""
    yield
    kill_all(tmp_path)
