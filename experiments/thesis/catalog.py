"""Every experiment of the thesis, in the order of its page."""

from experiments.experiment import Experiment
from experiments.thesis.evaluation import CONTINUOUS, COST, STATIC
from experiments.thesis.gangs import GANGS
from experiments.thesis.honest import HONEST
from experiments.thesis.throughputs import THROUGHPUTS

THESIS: tuple[Experiment, ...] = (THROUGHPUTS, COST, STATIC, CONTINUOUS, *HONEST, GANGS)
