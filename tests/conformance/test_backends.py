"""One class, three backends."""

from typing import ClassVar

import pytest

from tests.conformance.conformance import BackendConformance, MixesConformance
from tests.conformance.deployed import run_emulated, run_trained
from tests.conformance.simulated import run_simulated


class TestSimulated(MixesConformance):
    """In virtual time."""

    run = staticmethod(run_simulated)
    round_s: ClassVar[float] = 360.0
    longer: ClassVar[float] = 8.0


@pytest.mark.slow
class TestEmulated(MixesConformance):
    """Real service, real agents, jobs that sleep."""

    run = staticmethod(run_emulated)
    round_s: ClassVar[float] = 0.5
    longer: ClassVar[float] = 2.0


@pytest.mark.slow
class TestTrained(BackendConformance):
    """Real service, real agents, processes that train with torch."""

    run = staticmethod(run_trained)
    round_s: ClassVar[float] = 8.0
    longer: ClassVar[float] = 0.5
    paced: ClassVar[bool] = False
    bits: ClassVar[tuple[str, str]] = ("elastic", "torch-ddp")

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch")
