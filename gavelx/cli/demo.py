"""``gavelx demo``: the comparison with which the README begins, for who has only the wheel."""

from pathlib import Path

from gavelx.cli.output import Outputs, stderr
from gavelx.cli.run_options import RunOptions
from gavelx.cli.running import run_compare
from gavelx.errors import OptionError

POLICIES = "fifo,agnostic(fifo),isolated,agnostic(max_min_fairness),max_min_fairness,max_sum_throughput"
RUN = RunOptions(cluster="v100=12,p100=12,k80=12", trace="gavel_msr_e13805", skip_unrunnable=True)


def run_demo(folder: Path, workers: int | None) -> int:
    """Compare six policies on a published trace; print a table, and write page, plot and figures into the folder.

    Returns the exit status. Raises :class:`OptionError` where the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{folder} cannot be made: {error.strerror}", where="--out") from error
    json, html, png = (str(folder / f"compare.{kind}") for kind in ("json", "html", "png"))
    code = run_compare(POLICIES, RUN, workers, Outputs(json, html, png))
    stderr().print(f"the page with all plots is {html}", markup=False, soft_wrap=True)
    return code
