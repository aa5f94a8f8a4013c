"""Every experiment of the thesis, in the order of its page."""

from experiments.experiment import Experiment
from experiments.thesis.evaluation import CONTINUOUS, COST, STATIC
from experiments.thesis.honest import HONEST

THESIS: tuple[Experiment, ...] = (COST, STATIC, CONTINUOUS, *HONEST)
