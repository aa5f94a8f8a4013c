"""``gavelx log compact``: what the options say, and what is printed."""

from gavelx.cli.extras import service_installed
from gavelx.cli.output import print_json, stdout
from gavelx.cli.secrets import check_not_typed

with service_installed():
    from gavelx.service.state.snapshots import compact


def run_compact(log: str, as_json: bool) -> None:
    """Compact a log, and say how many records were archived."""
    check_not_typed("LOG", log)
    done = compact(log)
    if as_json:
        print_json(done._asdict())
    else:
        line = f"archived {done.archived:,} records; a restart begins at record {done.sequence:,}"
        stdout().print(line, markup=False)
