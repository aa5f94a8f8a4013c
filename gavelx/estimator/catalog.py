"""Find an estimator by its name: ours, or one of an installed package (entry point ``gavelx.estimators``)."""

from collections.abc import Callable
from importlib.metadata import entry_points

from gavelx.accelerators import NO_DATA_SHEETS, DataSheets
from gavelx.errors import OptionError, did_you_mean
from gavelx.estimator.base import Estimator
from gavelx.estimator.combined import Combined
from gavelx.estimator.completion import Completion

ENTRY_POINTS = "gavelx.estimators"
DEFAULT = Completion.name
MakeEstimator = Callable[[DataSheets], Estimator]
"""The target of an entry point: a class or function that makes an estimator, given the data sheets of devices."""


def estimators() -> dict[str, MakeEstimator]:
    """Every named estimator, as the function that makes it."""
    installed = {entry.name: _installed(entry.name) for entry in entry_points(group=ENTRY_POINTS)}
    return {**installed, Completion.name: Completion, Combined.name: Combined}


def make_estimator(name: str = DEFAULT, data_sheets: DataSheets = NO_DATA_SHEETS) -> Estimator:
    """A new estimator of that name. Raises :class:`OptionError` with the nearest name if there is none."""
    known = estimators()
    if name not in known:
        raise OptionError(f"{name!r} is no estimator", where="--estimator", hint=did_you_mean(name, known))
    return known[name](data_sheets)


def _installed(name: str) -> MakeEstimator:
    """The function that makes the estimator of an installed package, which is loaded at the first call."""

    def make(data_sheets: DataSheets) -> Estimator:
        (entry,) = entry_points(group=ENTRY_POINTS, name=name)
        where = f"entry point {entry.name} = {entry.value}"
        try:
            made = entry.load()(data_sheets)
        except (Exception, SystemExit) as error:  # any failure of the package is reported with its message
            problem = f"cannot be loaded: {type(error).__name__}: {error}"
            raise OptionError(
                problem, where=where, hint="fix the package that defines it, or uninstall it"
            ) from error
        if not isinstance(made, Estimator):
            raise OptionError(f"makes {made!r}", where=where, expected="a gavelx.estimator.Estimator")
        return made

    return make
