"""The throughput estimator: from a few measured speeds to all others, with intervals.

``base`` defines an estimator, ``known`` is the base class of all of ours, ``catalog`` finds one by name.
``completion`` is the default, made of ``effects`` (the model), ``gaussian_process`` (the mathematics;
``calibration`` and ``intervals`` for uncertainty, ``device_similarity`` and ``interference_scale`` for quantities
learnt from speeds); ``names`` parses job types, and ``memory_limits`` finds where a job cannot fit.
``steady_speed`` turns step counts into a speed, ``online`` corrects a table by the speeds of leases, ``active``
chooses the next measurement, and ``estimated_table`` makes a throughput table of estimates,
and ``gangs`` widens a table to gangs of other widths. ``step_time`` and
``goodput`` model elastic jobs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gavelx.estimator.base import LEVEL, Estimator
    from gavelx.estimator.catalog import DEFAULT, estimators, make_estimator
    from gavelx.estimator.gangs import GangSpeeds

__all__ = ["DEFAULT", "LEVEL", "Estimator", "GangSpeeds", "estimators", "make_estimator"]
_HOMES = {"base": "LEVEL Estimator", "catalog": "DEFAULT estimators make_estimator", "gangs": "GangSpeeds"}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The names above when they are asked for: most commands estimate nothing, and imports take long."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
