"""Options of the commands about learning."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from gavelx.cli import options as o


class Teacher(StrEnum):
    """Schedulers from which DL2's network learns first."""

    drf = "drf"
    optimus = "optimus"
    srtf = "srtf"
    tetris = "tetris"


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """The traces from which is learned, or on which is evaluated, as typed."""

    cluster: o.Cluster
    jobs: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Random jobs of each trace.")] = 60
    traces: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Traces of a round, or of an evaluation.")
    ] = 8
    job_types: o.JobTypes = None
    arrival_rate: o.ArrivalRate = 0.0
    multi_gpu: o.MultiGpu = False
    multi_priority: o.MultiPriority = False
    elasticity: o.Elasticity = None
    table: o.Table = "simulation"
    slot: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="How often devices change hands in the model.")
    ] = 360.0
    seed: o.Seed = 0
