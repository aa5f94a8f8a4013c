"""What a user may type after the commands about throughputs."""

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What to measure and how, as typed."""

    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND ...", help="What to run; no shell sees it. A + begins a partner's."),
    ]
    type: Annotated[str, typer.Option(metavar="TYPE", help="The job type that it is.")]
    accelerator: Annotated[
        str | None, typer.Option(metavar="NAME", help="What is here, such as cpu; found with NVML otherwise.")
    ] = None
    seconds: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="How long to count steps, from the first one on.")
    ] = 60.0
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="So many steps instead.")] = None
    workers: Annotated[str, typer.Option(metavar="N,...", help="Numbers of devices.")] = "1"
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="N,...", help="What {batch_size} stands for in the command.")
    ] = None
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="A partner on the same device; its command follows after a +."),
    ] = None
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Start each so often: surer intervals.")] = 1
    start_within: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="A job without a step by then is not measured.")
    ] = 300.0
    step_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="For jobs that report no steps: lines that say them, such as 'step (\\d+)'."
        ),
    ] = None
    one_process: Annotated[
        bool, typer.Option("--one-process", help="The command starts its own processes (torchrun, say).")
    ] = False
    out: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="A table to begin or to add to; pairs go beside it.")
    ] = None
    source: Annotated[str, typer.Option(help="Whose measurement this is, for the table.")] = (
        "gavelx throughputs measure"
    )
