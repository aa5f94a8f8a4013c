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

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.catalog import DEFAULT, estimators, make_estimator
from gavelx.estimator.gangs import GangSpeeds

__all__ = ["DEFAULT", "LEVEL", "Estimator", "GangSpeeds", "estimators", "make_estimator"]
