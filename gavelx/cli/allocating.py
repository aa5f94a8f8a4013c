"""``gavelx allocate``: one allocation, with its certificate and, with ``--explain``, its explanation."""
# ruff: noqa: PLC0415  # tables and explanations take longer to import than most answers take

from gavelx.asking import ask
from gavelx.cli.output import Outputs, prints_aside, stdout, write_json
from gavelx.cli.snapshot_speeds import snapshot_with_estimates
from gavelx.cli.stopping import stoppable
from gavelx.files.snapshots import read_snapshot
from gavelx.policies import load_policy
from gavelx.report.speeds import SpeedsOfType, speeds_to_json, speeds_used
from gavelx.solvers import Settings, using


def allocate(
    policy_text: str,
    snapshot_path: str,
    index: int | None,
    settings: Settings,
    outputs: Outputs,
    *,
    explain: bool = False,
    strict_speeds: bool = False,
) -> None:
    """Read a snapshot, ask the policy, and print the shares of time as a table, or write them as JSON.

    Speeds on accelerator types of which the snapshot has none are estimated, unless ``strict_speeds``.
    """
    outputs.check(snapshot_path)
    with prints_aside(), using(settings), stoppable(policy_text) as asked:
        policy = load_policy(policy_text)
        snapshot = read_snapshot(snapshot_path, index)
        speeds: tuple[SpeedsOfType, ...] = ()
        if not strict_speeds:
            snapshot, table = snapshot_with_estimates(snapshot)
            speeds = speeds_used(snapshot.jobs, snapshot.accelerators, table)
        allocation = ask(asked, snapshot)
        if explain:
            from gavelx.cli.budgeting import spending_of

            spent = spending_of(policy, allocation, snapshot)
    if explain:
        from gavelx.explain.explanation import Explanation

        explanation = Explanation(allocation)
    if outputs.json is not None:
        more = {"explanation": explanation.to_json()} if explain else {}
        if explain and spent:
            more["explanation"]["budgets"] = {row.owner: row.to_json() for row in spent}
        write_json(allocation.to_json() | more | speeds_to_json(speeds), outputs.json)
        return
    from gavelx.cli.allocation_tables import print_allocation
    from gavelx.cli.tables import print_speeds

    print_allocation(str(policy), allocation, stdout())
    print_speeds(speeds, stdout())
    if explain:
        from gavelx.cli.budgeting import print_spending
        from gavelx.cli.explaining import print_explanation

        print_explanation(explanation, stdout())
        print_spending(spent, stdout())
