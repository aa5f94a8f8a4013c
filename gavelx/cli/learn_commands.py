"""The commands about learning: imitate a schedule that looks ahead, reinforce as DL2 does, and evaluate networks.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.learn_options import Teacher, WorldOptions
from gavelx.cli.run_options import with_options

learn_app = typer.Typer(no_args_is_help=True, help="Policies that learn.")
Out = Annotated[str, typer.Option(metavar="FILE.npz", help="Where the weights of the best round go.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Written after each round; if it exists, learning goes on from there."),
]
Curve = Annotated[str | None, typer.Option(metavar="FILE.png", help="Write the curve of the rounds here.")]


@learn_app.command(
    "imitate",
    epilog="Example:  gavelx learn imitate --cluster v100=8 --elasticity workers:1-4 --arrival-rate 6 --slot 3600 "
    "--out weights.npz",
)
@with_options(WorldOptions)
def learn_imitate(
    *,
    world: WorldOptions,
    rounds: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Each takes other traces.")] = 3,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Steps of training in each round.")] = 400,
    out: Out,
    checkpoint: Checkpoint = None,
    plot: Curve = None,
    json: o.JsonFlag = False,
) -> None:
    """Teach a network what looking ahead would do on random traces of your cluster.

    After each round the network is measured on traces that it has not learned
    from, beside its teacher and a greedy schedule; the best round is kept. The
    same options give the same weights, also after an interruption. Needs torch:
    pip install "gavelx[train]".
    """
    from gavelx.cli.learning import Files, imitate

    imitate(world, rounds, steps, Files(out, checkpoint, plot), as_json=json)


@learn_app.command(
    "reinforce",
    epilog="Example:  gavelx learn reinforce --cluster v100=8 --elasticity workers:1-4 --arrival-rate 6"
    " --slot 3600 --teacher drf --out dl2.npz",
)
@with_options(WorldOptions)
def learn_reinforce(
    *,
    world: WorldOptions,
    teacher: Annotated[
        Teacher, typer.Option(help="What the network imitates before it is reinforced.")
    ] = Teacher.drf,
    window: Annotated[int, typer.Option(min=1, max=200, metavar="N", help="Jobs that the network sees.")] = 40,
    rounds: Annotated[int, typer.Option(min=0, max=10_000, metavar="N", help="Each takes other traces.")] = 20,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Steps of imitation.")] = 1000,
    out: Out,
    checkpoint: Checkpoint = None,
    plot: Curve = None,
    json: o.JsonFlag = False,
) -> None:
    """DL2 as published: imitate a scheduler, then learn by reinforcement.

    Round 0 is the imitation. After each round the network is measured on
    traces that it has not learned from; the best round is kept. Our figures:
    docs/learning.md. Needs torch: pip install "gavelx[train]".
    """
    from gavelx.cli.learning import Files, Published, reinforce

    reinforce(world, Published(teacher.value, window, steps), rounds, Files(out, checkpoint, plot), as_json=json)


@learn_app.command(
    "evaluate",
    epilog="Example:  gavelx learn evaluate weights.npz --cluster v100=8 --elasticity workers:1-4 --arrival-rate 6"
    " --slot 3600",
)
@with_options(WorldOptions)
def learn_evaluate(
    *,
    weights: Annotated[str, typer.Argument(metavar="FILE.npz", help="The weights file.")],
    world: WorldOptions,
    json: o.JsonFlag = False,
) -> None:
    """Compare a network with looking ahead and a greedy schedule, on traces that none learned from.

    Differences are means over the traces, with 95 % intervals (Student's t). Needs no torch.
    """
    from gavelx.cli.learning import evaluate

    evaluate(weights, world, as_json=json)
