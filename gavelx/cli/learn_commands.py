"""The commands about learning: imitate a schedule that looks ahead, adapt, reinforce as DL2 does, and evaluate.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.cluster_options import Address
from gavelx.cli.learn_options import Teacher, WorldOptions
from gavelx.cli.run_options import with_options
from gavelx.cli.secrets import STATE

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
    "adapt",
    epilog="Example:  gavelx learn adapt weights.npz --cluster v100=4 --elasticity workers:1-4 --arrival-rate 6"
    " --slot 3600 --out adapted.npz",
)
@with_options(WorldOptions)
def learn_adapt(
    *,
    weights: Annotated[str, typer.Argument(metavar="FILE.npz", help="A network that learned by imitation.")],
    world: WorldOptions,
    rounds: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Each takes other traces.")] = 12,
    out: Out,
    checkpoint: Checkpoint = None,
    plot: Curve = None,
    json: o.JsonFlag = False,
) -> None:
    """Adapt a network to your cluster and jobs by reinforcement.

    Each trace of a round is played four times, and draws that turned out better
    become likelier. Round 0 is the network as it came; the best round on traces
    that it has not learned from is kept. Needs torch: pip install "gavelx[train]".
    """
    from gavelx.cli.learning import Files, adapt

    adapt(weights, world, rounds, Files(out, checkpoint, plot), as_json=json)


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


@learn_app.command(
    "follow",
    epilog="Example:  gavelx learn follow run/ --weights weights/ --teacher 'elastic(srtf_program)' --every 3600",
)
@with_options(Address)
def learn_follow(
    log: Annotated[
        str, typer.Argument(metavar="LOG", envvar=STATE, help="The --state of the service: a folder or a URL.")
    ],
    *,
    address: Address,
    weights: Annotated[str, typer.Option(metavar="FOLDER", help="Where weights go; the scheduler reads it too.")],
    teacher: Annotated[
        str, typer.Option(metavar="POLICY", help="Decides while no network is as good in the simulator.")
    ] = "elastic(srtf_program)",
    last: Annotated[
        int, typer.Option(min=1, metavar="N", help="Learn from, and judge by, the last N jobs.")
    ] = 100,
    rounds: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Of learning, each time.")] = 3,
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Steps of training in each round.")] = 400,
    slot: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            metavar="SECONDS",
            help="How often devices change hands in the model; default: 360 s, and longer where jobs are long.",
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, metavar="PART", help="By how much a network may be worse than the teacher.")
    ] = 0.05,
    every: Annotated[
        float | None, typer.Option(min=1.0, metavar="SECONDS", help="Learn anew so often; default: once.")
    ] = None,
    seed: o.Seed = 0,
    json: o.JsonFlag = False,
) -> None:
    """Learn beside a running scheduler, from its log, and let it decide by what was learned.

    The last jobs are simulated under the new network, the one that decides now
    and the teacher; the best decides from now on, and the teacher if no network
    is within the tolerance. No lease is disturbed: running jobs continue until
    the next round. Needs torch: pip install "gavelx[train,service]".
    """
    from gavelx.cli.clients import access_of
    from gavelx.cli.following import Following, run_follow

    following = Following(log, weights, teacher, last, rounds, steps, slot, tolerance, seed)
    run_follow(access_of(address), following, every, as_json=json)
