"""Options of the commands about throughputs."""

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """The options of ``throughputs measure``, as typed."""

    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND ...", help="The command, run without a shell. + and a partner's."),
    ]
    type: Annotated[str, typer.Option(metavar="TYPE", help="The job type of the command.")]
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Type of the devices here: cpu. Default: found with NVML.")
    ] = None
    seconds: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="Time over which to count steps, from the first one.")
    ] = 60.0
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="Count this many steps instead.")] = None
    workers: Annotated[str, typer.Option(metavar="N,...", help="Numbers of devices.")] = "1"
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="N,...", help="Values for {batch_size} in the command.")
    ] = None
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="A partner on the same device; its command follows after a +."),
    ] = None
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Runs of each; more make intervals surer.")] = 1
    start_within: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="A job without a step by then is not measured.")
    ] = 300.0
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="For jobs that only print their steps: such as 'step (\\d+)'."),
    ] = None
    one_process: Annotated[
        bool, typer.Option("--one-process", help="The command starts its own processes (torchrun, say).")
    ] = False
    out: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="A new table, or one to add to; pairs go beside it.")
    ] = None
    source: Annotated[str, typer.Option(help="Source of the measurement, for the table.")] = (
        "gavelx throughputs measure"
    )
