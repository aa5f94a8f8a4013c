"""Ways to hide cells of a published table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Way
from gavelx.throughputs import Pairing

KNOWN_JOBS, HIDDEN_JOBS, KNOWN_CELLS = 2, 4, 2
FEW_JOBS = 6


class Hidden(NamedTuple):
    """What is hidden in one way: the name of the way, and which cells are known."""

    regime: str
    known: set[Way]


def truth_of(table: str, tiny: bool) -> dict[Way, float]:
    """All cells of a published table; of few job types, if tiny."""
    found = load_throughputs(table)
    cells: dict[Way, float] = {**found.isolated, **found.colocated}
    if not tiny:
        return cells
    jobs = set(found.job_types[:: len(found.job_types) // FEW_JOBS])
    return {way: speed for way, speed in cells.items() if _job_types(way) <= jobs}


def hidings(truth: Mapping[Way, float], seed: int, shares: Sequence[float]) -> Iterator[Hidden]:
    """Every way to hide cells of a table, with one seed."""
    random = np.random.default_rng(seed)
    pairs = sorted({(*sorted(way[:2]), way.accelerator) for way in truth if isinstance(way, Pairing)})
    alone = {way for way in truth if not isinstance(way, Pairing)}
    for share in shares:
        shown = [pairs[i] for i in random.permutation(len(pairs))[: round(share * len(pairs))]]
        both = {Pairing(*order, device) for a, b, device in shown for order in ((a, b), (b, a))}
        yield Hidden(f"{share:.0%} of pairs measured", alone | both)
    jobs = sorted({way.job_type for way in alone})
    for device in sorted({way.accelerator for way in alone}):
        few = set(random.choice(jobs, KNOWN_JOBS, replace=False))
        known = {way for way in truth if way.accelerator != device or _job_types(way) <= few}
        yield Hidden(f"{device} hidden but for two job types", known)
    gone = set(random.choice(jobs, HIDDEN_JOBS, replace=False))
    known = {way for way in truth if not _job_types(way) & gone}
    for job in sorted(gone):
        own = sorted(way for way in alone if way.job_type == job and truth[way] > 0)
        known |= {own[i] for i in random.choice(len(own), KNOWN_CELLS, replace=False)}
    yield Hidden("four job types hidden but for two cells each", known)


def _job_types(way: Way) -> set[str]:
    return {way.job_type, way.partner} if isinstance(way, Pairing) else {way.job_type}
