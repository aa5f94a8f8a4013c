"""gavelx: optimization policies for scheduling training jobs on mixed GPU clusters.

The names that most programs need; each is imported at its first use. The terms of formulas are in
:mod:`gavelx.policies`, tests for authors of policies in :mod:`gavelx.testing`, and the interface of training
scripts in :mod:`gavelx.training`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gavelx.allocation import Allocation
    from gavelx.cluster import Cluster
    from gavelx.errors import GavelxError, UserError
    from gavelx.execution import Execution
    from gavelx.files.importers import import_trace
    from gavelx.files.price_tables import load_prices
    from gavelx.files.snapshots import read_snapshot, write_snapshot
    from gavelx.files.throughput_tables import load_throughputs
    from gavelx.files.traces import read_trace, write_trace
    from gavelx.jobs import Job
    from gavelx.mechanism import Rules
    from gavelx.policies import Policy, load_policy
    from gavelx.prices import Prices
    from gavelx.result import Result
    from gavelx.simulator.compare import compare
    from gavelx.simulator.faults import Faults
    from gavelx.simulator.random_jobs import random_jobs
    from gavelx.simulator.simulate import simulate
    from gavelx.snapshot import Snapshot
    from gavelx.throughputs import Pairing, Setting, Throughputs

__version__ = "0.1.0"
__all__ = [
    "Allocation",
    "Cluster",
    "Execution",
    "Faults",
    "GavelxError",
    "Job",
    "Pairing",
    "Policy",
    "Prices",
    "Result",
    "Rules",
    "Setting",
    "Snapshot",
    "Throughputs",
    "UserError",
    "compare",
    "import_trace",
    "load_policy",
    "load_prices",
    "load_throughputs",
    "random_jobs",
    "read_snapshot",
    "read_trace",
    "simulate",
    "write_snapshot",
    "write_trace",
]
_HOMES = {
    "gavelx.allocation": "Allocation",
    "gavelx.cluster": "Cluster",
    "gavelx.errors": "GavelxError UserError",
    "gavelx.execution": "Execution",
    "gavelx.files.importers": "import_trace",
    "gavelx.files.price_tables": "load_prices",
    "gavelx.files.snapshots": "read_snapshot write_snapshot",
    "gavelx.files.throughput_tables": "load_throughputs",
    "gavelx.files.traces": "read_trace write_trace",
    "gavelx.jobs": "Job",
    "gavelx.mechanism": "Rules",
    "gavelx.policies": "Policy load_policy",
    "gavelx.prices": "Prices",
    "gavelx.result": "Result",
    "gavelx.simulator.compare": "compare",
    "gavelx.simulator.faults": "Faults",
    "gavelx.simulator.random_jobs": "random_jobs",
    "gavelx.simulator.simulate": "simulate",
    "gavelx.snapshot": "Snapshot",
    "gavelx.throughputs": "Pairing Setting Throughputs",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gavelx' has no attribute {name!r}", name=name)
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
