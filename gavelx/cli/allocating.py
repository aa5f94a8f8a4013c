"""``gavelx allocate``: one allocation, with its certificate and, with ``--explain``, its explanation."""

from rich.console import Console

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cli.budgeting import print_spending, spending_of
from gavelx.cli.estimated_speeds import snapshot_with_estimates
from gavelx.cli.explaining import print_explanation
from gavelx.cli.output import Outputs, stdout, write_json
from gavelx.cli.stopping import stoppable
from gavelx.cli.tables import plain_table, policy_cell, print_rows, print_speeds
from gavelx.explain.explanation import Explanation
from gavelx.files.snapshots import read_snapshot
from gavelx.policies import load_policy
from gavelx.report.speeds import SpeedsOfType, speeds_to_json, speeds_used
from gavelx.report.words import number
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
    policy = load_policy(policy_text)
    outputs.check(snapshot_path)
    with using(settings), stoppable(policy_text) as asked:
        snapshot = read_snapshot(snapshot_path, index)
        speeds: tuple[SpeedsOfType, ...] = ()
        if not strict_speeds:
            snapshot, table = snapshot_with_estimates(snapshot)
            speeds = speeds_used(snapshot.jobs, snapshot.accelerators, table)
        allocation = ask(asked, snapshot)
        spent = spending_of(policy, allocation, snapshot) if explain else ()
    explanation = Explanation(allocation) if explain else None
    if outputs.json is not None:
        more = {} if explanation is None else {"explanation": explanation.to_json()}
        if spent:
            more["explanation"]["budgets"] = {row.owner: row.to_json() for row in spent}
        write_json(allocation.to_json() | more | speeds_to_json(speeds), outputs.json)
    else:
        print_allocation(str(policy), allocation, stdout())
        print_speeds(speeds, stdout())
        if explanation is not None:
            print_explanation(explanation, stdout())
            print_spending(spent, stdout())


def print_allocation(policy: str, allocation: Allocation, console: Console) -> None:
    """Print the share of time of each job on each type, and the certificate."""
    snapshot = allocation.snapshot
    rows = []
    for job, shares, speed in zip(snapshot.jobs, allocation.share_JA, allocation.throughput_J, strict=True):
        cells = [f"{share:.3f}" if share else "." for share in (*shares, shares.sum())]
        rows.append([str(job.id), str(job.scale_factor), *cells, number(speed), job.job_type])
    headings = ["job", "devices", *snapshot.accelerators, "all", "steps/s", "job type"]
    print_rows(policy, headings, rows, console)
    _print_certificate(allocation, console)


def _print_certificate(allocation: Allocation, console: Console) -> None:
    c = allocation.certificate
    rows = {
        "cluster": str(allocation.snapshot.cluster),
        "objective": "none" if c.objective is None else f"{c.objective:.9g}",
        "bound": "none" if c.bound is None else f"{c.bound:.9g} (no allocation passes it)",
        "violation": f"{c.violation:.1e}",
        "path": f"{c.path}, {c.classes} classes of identical jobs",
    }
    if allocation.marginal_A:
        gains = ", ".join(f"{name} {gain + 0.0:.4g}" for name, gain in allocation.marginal_A.items())  # -0 is 0
        rows["one more device"] = f"changes the objective by: {gains}"
    table = plain_table(show_header=False)
    for name, text in rows.items():
        table.add_row(name, policy_cell(text))
    console.print(table)
    for note in allocation.notes:
        console.print(f"note: {note}", markup=False, highlight=False)
