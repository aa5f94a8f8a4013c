"""A bill that follows a cluster in a test, and must say what the state says of each job, after every entry."""

import math
from collections import Counter
from collections.abc import Mapping

import pytest

from gavelx.files.results import Usage
from gavelx.service.state.state import State
from gavelx.service.state.usage import Meter
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry


class Billed:
    """A state of its own, to which the same happens."""

    def __init__(self, made_with: Configuration) -> None:
        self.state = State(made_with)
        self.meter = Meter(self.state, None, None)

    def follow(self, entry: Entry) -> None:
        assert entry.event is not None
        self.meter.before(entry)
        self.state.apply(entry)
        self.meter.after(entry.event)
        check_same(self._billed_usd(), self._spent_usd())

    def _billed_usd(self) -> dict[int, float]:
        mechanism, usd = self.state.mechanism, Counter[int]()
        for part in self.meter._parts:
            prices = mechanism.accounts.tariffs[part.tariff]
            for (job_id, a), device_s in part.charged_s.items():
                name = mechanism.hardware.accelerators[a]
                usd[job_id] += device_s * prices.of(name) / 3600.0 if device_s else 0.0
        return usd

    def _spent_usd(self) -> dict[int, float]:
        live = self.state.mechanism.live
        ended = {job_id: known.spent_usd for job_id, known in self.state.jobs.items() if known.ended}
        return dict(zip(live.id.tolist(), live.spent_usd.tolist(), strict=True)) | ended


def check_same(one: Mapping[int, float], other: Mapping[int, float]) -> None:
    """Of every job the same dollars; those of a job that is missing are none."""
    nothing = dict.fromkeys([*one, *other], 0.0)
    assert {**nothing, **one} == pytest.approx({**nothing, **other}, abs=1e-9, nan_ok=True)


def usd_of(usage: Usage) -> dict[int, float]:
    """The dollars of each job, each second at the price of its time."""
    tariffs = [period.usd_per_hour for period in usage.periods]
    return {
        use.job_id: sum(
            device_s * float(tariffs[k][name] or math.nan) / 3600.0
            for k, of_type in use.device_s_of_period.items()
            for name, device_s in of_type.items()
        )
        for use in usage.uses
    }
