"""Tests for authors of policies: subclass one class, and pytest checks your policy on generated clusters.

    class TestMine(PolicyConformance):
        policy = my_policy

`policies` has that class, made of `answers` (feasible and honest), `invariance` (changes that must not matter),
`promises` (fairness and efficiency, if the policy claims them), `weights`, `runs` (short simulations) and
`clocks`; `snapshots` generates clusters and jobs; `changes` makes equivalent snapshots; `plain` recomputes shares
from scratch; `checks` asks the policy and words failures. `estimators` is the same for estimators of throughput:

    class TestMine(EstimatorConformance):
        estimator = MyEstimator
"""

try:
    import hypothesis as _hypothesis
    import pytest as _pytest
except ModuleNotFoundError as missing:
    raise ImportError(
        f"gavelx.testing needs {missing.name}, which is not installed. Try: pip install 'gavelx[testing]'"
    ) from missing

from gavelx.testing.checks import NonConformance
from gavelx.testing.estimators import EstimatorConformance
from gavelx.testing.policies import PolicyConformance
from gavelx.testing.snapshots import clusters, snapshot_of, snapshots

__all__ = ["EstimatorConformance", "NonConformance", "PolicyConformance", "clusters", "snapshot_of", "snapshots"]
_ = (_hypothesis, _pytest)
