"""Every estimator that ours is compared with keeps what is expected of all."""

import pytest

from experiments.estimation.baselines import BASELINES
from gavelx.testing import EstimatorConformance

pytestmark = pytest.mark.slow

for _name, _make in BASELINES.items():
    _class = f"Test{_name.title().replace('_', '')}"
    globals()[_class] = type(_class, (EstimatorConformance,), {"estimator": staticmethod(_make)})
