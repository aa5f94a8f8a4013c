"""What a job says of its training: how far through its data it is, how well it does, which bits it keeps."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

KNOWN_MOST = 1e15
Determinism = Literal["none", "fixed", "elastic", "heterogeneous"]
LEVELS: tuple[Determinism, ...] = get_args(Determinism)
"""Levels of `gavelx.training.determinism`, in rising order."""
Order = Literal["torch-ddp", "rank", "tree"]
ORDERS: tuple[Order, ...] = get_args(Order)
"""In which gradients of parts are added: `gavelx.training.ordered`."""


class TrainingReport(NamedTuple):
    """Passes through the data so far, samples of a pass, the first and the present loss, validation accuracy.

    NaN: the job does not say. ``epochs`` counts parts of a pass.
    """

    epochs: float = math.nan
    epoch_samples: float = math.nan
    first_loss: float = math.nan
    loss: float = math.nan
    accuracy: float = math.nan

    @staticmethod
    def of(values: dict[str, object]) -> "TrainingReport | None":
        """Those of a job's own words that are numbers; None if it does not count passes through its data."""
        report = TrainingReport(*(_number(values.get(name)) for name in TrainingReport._fields))
        return report if report.says else None

    @property
    def says(self) -> bool:
        """Whether the job says anything."""
        return self.epochs >= 0.0


NOTHING_SAID = TrainingReport()


class Reproducibility(NamedTuple):
    """The level of determinism that a job keeps, and the order in which it adds gradients. Empty: it says none."""

    level: str = ""
    order: str = ""

    @staticmethod
    def of(values: Mapping[str, object]) -> "Reproducibility":
        """Those of a job's own words that are known here."""
        level, order = values.get("determinism"), values.get("order")
        return Reproducibility(
            level if isinstance(level, str) and level in LEVELS else "",
            order if isinstance(order, str) and order in ORDERS else "",
        )


NO_BITS_SAID = Reproducibility()


def _number(value: object) -> float:
    good = isinstance(value, int | float) and abs(value) <= KNOWN_MOST  # neither NaN nor an int that is no float
    return float(value) if good else math.nan  # type: ignore[arg-type]


def silent_words(for_s: float, usual_s: float) -> str:
    """For how long a job made no step, and how long one usually takes.

    >>> silent_words(95.4, 1.04), silent_words(3600.0, 0.012), silent_words(95.0, 0.0)
    ('no step for 95 s (usually 1 s)', 'no step for 3,600 s (usually 0.012 s)', 'no step for 95 s')
    """
    usual = f"{usual_s:.2g}" if usual_s < 10.0 else f"{usual_s:,.0f}"
    return f"no step for {for_s:,.0f} s" + (f" (usually {usual} s)" if usual_s > 0.0 else "")
