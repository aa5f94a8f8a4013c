"""Every experiment, in the order of RESULTS.md."""

from experiments.continuous_multiple import CONTINUOUS_MULTIPLE
from experiments.continuous_single import CONTINUOUS_SINGLE
from experiments.cost_objective import COST_OBJECTIVE
from experiments.elastic import ELASTIC
from experiments.experiment import Experiment
from experiments.idle_devices import IDLE_DEVICES
from experiments.makespan import MAKESPAN

EXPERIMENTS: tuple[Experiment, ...] = (
    CONTINUOUS_SINGLE,
    CONTINUOUS_MULTIPLE,
    MAKESPAN,
    IDLE_DEVICES,
    COST_OBJECTIVE,
    ELASTIC,
)
