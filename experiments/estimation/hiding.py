"""Ways to hide cells of a published table."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gavelx.estimator.completion import Completion
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing

KNOWN_JOBS, HIDDEN_JOBS, KNOWN_CELLS = 2, 4, 2
FEW_JOBS, CHOICES = 6, 3


class Hidden(NamedTuple):
    """What is hidden in one way: the name of the way, which cells are known, and of what it is one case."""

    regime: str
    known: set[Way]
    case_of: str = ""


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
        rest = "hidden but for two job types"
        yield Hidden(f"{device} {rest}", _but_for(truth, device, few), case_of=f"each device in turn {rest}")
    gone = set(random.choice(jobs, HIDDEN_JOBS, replace=False))
    known = {way for way in truth if not _job_types(way) & gone}
    for job in sorted(gone):
        own = sorted(way for way in alone if way.job_type == job and truth[way] > 0)
        known |= {own[i] for i in random.choice(len(own), KNOWN_CELLS, replace=False)}
    yield Hidden("four job types hidden but for two cells each", known)


def chosen(truth: Mapping[Way, float]) -> Iterator[Hidden]:
    """Accelerator types of which two job types are known that the estimator would measure there.

    Those that leave least doubt about all others, without a look at speeds on the device. Models of as many batch
    sizes tell as much of others, so there are ties: the first few choices are taken.
    """
    alone = [way for way in truth if not isinstance(way, Pairing)]
    for device in sorted({way.accelerator for way in alone}):
        estimator = Completion(load_data_sheets())
        estimator.observe(Measurement(way, truth[way]) for way in alone if way.accelerator != device)
        column = [way for way in alone if way.accelerator == device]
        choices = combinations(sorted({way.job_type for way in column}), KNOWN_JOBS)
        for few in sorted(choices, key=partial(_doubt, estimator, column))[:CHOICES]:
            rest, known = "hidden but for two job types that it chose", _but_for(truth, device, set(few))
            yield Hidden(f"{device} {rest}", known, case_of=f"each device in turn {rest}")


def _doubt(estimator: Completion, column: Sequence[Way], few: Sequence[str]) -> float:
    """What is left of it about a device once these job types have been measured there."""
    left_M = estimator.doubt(column, [way for way in column if way.job_type in few])
    return round(float(left_M.sum()), 6)  # so that ties are ties


def _but_for(truth: Mapping[Way, float], device: str, few: set[str]) -> set[Way]:
    return {way for way in truth if way.accelerator != device or _job_types(way) <= few}


def _job_types(way: Way) -> set[str]:
    return {way.job_type, way.partner} if isinstance(way, Pairing) else {way.job_type}
