"""Energy and carbon of a run: an estimate from the thermal design power (TDP) of the devices.

    kWh = TDP x (device-seconds billed to jobs x busy + idle device-seconds x idle) / 3.6e6 x PUE
    kg of CO2 equivalent = kWh x grams per kWh of the grid / 1000

``busy`` and ``idle`` are the parts of its TDP that a device draws on average; the defaults are 1 and 0: the power
of the card times its utilization, which a thesis names as future work. Real training draws less than TDP, idle
devices draw more than nothing, and hosts, disks and networks are left out, so use this to rank policies and
regions, not as a measurement. The grid is the annual average of the region of the price, or of a named one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gavelx.files.results import Usage

J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Draw:
    """The part of its TDP that a device draws while a job holds it, and while it is idle."""

    busy: float = 1.0
    idle: float = 0.0


@dataclass(frozen=True)
class Footprint:
    """Energy by accelerator type, PUE included, and carbon; None if a figure is unknown for a type.

    If the PUE is unknown (None), the energy is that of the devices alone.
    """

    kwh_by_accelerator: Mapping[str, float | None]
    kg_co2_by_accelerator: Mapping[str, float | None]
    pue: float | None

    @property
    def kwh(self) -> float | None:
        return _total(self.kwh_by_accelerator)

    @property
    def kg_co2(self) -> float | None:
        return _total(self.kg_co2_by_accelerator)


def footprint_of(
    usage: Usage, tdp_w: Mapping[str, float], g_co2_per_kwh: Mapping[str, float], pue: float | None, draw: Draw
) -> Footprint:
    """The estimate for a run; both maps are by accelerator type and may lack some."""
    assert pue is None or pue >= 1.0, pue
    busy_s = dict.fromkeys(usage.accelerators, 0.0)
    for use in usage.uses:
        for name, seconds in use.device_s.items():
            busy_s[name] += seconds
    kwh: dict[str, float | None] = {}
    kg_co2: dict[str, float | None] = {}
    for name, idle_s in usage.idle_device_s.items():
        drawn_s = busy_s[name] * draw.busy + idle_s * draw.idle
        watts = tdp_w.get(name) if drawn_s else 0.0
        grams = g_co2_per_kwh.get(name) if drawn_s else 0.0
        kwh[name] = used = None if watts is None else watts * drawn_s / J_PER_KWH * (pue or 1.0)
        kg_co2[name] = None if used is None or grams is None else used * grams / 1000
    return Footprint(kwh, kg_co2, pue)


def _total(amounts: Mapping[str, float | None]) -> float | None:
    known = [amount for amount in amounts.values() if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
