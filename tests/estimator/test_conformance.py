"""Every estimator that we ship keeps what is expected of all."""

from gavelx.estimator import estimators
from gavelx.testing import EstimatorConformance

for _name, _make in estimators().items():
    _class = f"Test{_name.title().replace('_', '')}"
    globals()[_class] = type(_class, (EstimatorConformance,), {"estimator": staticmethod(_make)})
