"""The throughput estimator: measure little, know much, say how sure.

``base`` says what an estimator is, ``known`` what all of ours share, ``catalog`` finds one by name. ``completion``
is the default, made of ``effects`` (the model), ``kriging`` (the mathematics) and ``intervals`` (how sure);
``names`` reads job types and ``cannot_run`` knows where a job surely does not fit. ``steady`` makes a speed of
step counts, ``online`` puts a table right by what leases say, ``active`` says what to measure next, ``believed``
makes a table of what an estimator believes. ``step_time`` and ``goodput`` are the model of elastic jobs.
"""

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.estimator.catalog import DEFAULT, estimators, make_estimator

__all__ = ["DEFAULT", "LEVEL", "Estimator", "estimators", "make_estimator"]
