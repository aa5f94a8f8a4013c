"""An allocation as tables: the share of time of each job, and the certificate."""

from rich.console import Console

from gavelx.allocation import Allocation
from gavelx.cli.tables import plain_table, policy_cell, print_rows
from gavelx.report.words import number


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
    if allocation.relaxation is not None:
        rows["schedule"] = allocation.relaxation
    if allocation.marginal_A:
        gains = ", ".join(f"{name} {gain + 0.0:.4g}" for name, gain in allocation.marginal_A.items())  # -0 is 0
        rows["one more device"] = f"changes the objective by: {gains}"
    table = plain_table(show_header=False)
    for name, text in rows.items():
        table.add_row(name, policy_cell(text))
    console.print(table)
    for note in allocation.notes:
        console.print(f"note: {note}", markup=False, highlight=False)
