"""``gavelx prices import`` and ``prices check``."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from gavelx.cli.importing import LISTED
from gavelx.cli.money_options import ImportOptions
from gavelx.cli.output import print_json, stderr, stdout
from gavelx.files.atomic import ensure_writable, write_atomically
from gavelx.files.locate import data_path
from gavelx.files.price_importers import Given, Imported, import_prices
from gavelx.files.price_rows import price_csv, read_rates
from gavelx.pricing.check import Alarm, Checked, check_table

ALARMS_SHOWN = 5


def run_import(format: str, files: Sequence[str], typed: ImportOptions, out: str | None, as_json: bool) -> None:
    """Read price lists and write them as our CSV; the account of their rows goes to stderr."""
    if out is not None:
        ensure_writable(out, *files)
    given = Given(typed.cloud, typed.as_of, read_rates(typed.currency))
    imported = import_prices(format, files, given, skip_bad_rows=typed.skip_bad_rows)
    for line in account(imported):
        stderr().print(line, markup=False, soft_wrap=True)
    text = price_csv(imported.rows)
    if out is not None:
        write_atomically(out, text)
    if as_json:
        print_json(
            {
                "format": imported.format,
                "rows": imported.read,
                "prices": len(imported.rows),
                "skipped": [{"file": path, **bad._asdict()} for path, bad in imported.skipped],
                "left_out": imported.left_out,
            }
        )
    elif out is None:
        sys.stdout.write(text)
    else:
        kinds = ", ".join(f"{kind}: {count:,}" for kind, count in Counter(r.kind for r in imported.rows).items())
        stdout().print(f"{len(imported.rows):,} prices ({kinds})", markup=False)


def account(imported: Imported) -> Iterator[str]:
    for path, bad in imported.skipped[:LISTED]:
        yield f"skipped {path}, {bad}"
    if (more := len(imported.skipped) - LISTED) > 0:
        yield f"skipped, not shown here (--json lists all): {more:,}"
    for reason, count in imported.left_out.items():
        yield f"left out, {reason}: {count:,}"


def run_check(file: str | None, as_json: bool) -> None:
    """Print every alarm about a price table; the exit status is 2 if there are errors."""
    path = str(data_path("prices", "prices")) if file is None else file
    checked = check_table(path)
    if as_json:
        print_json(
            {
                "file": path,
                "rows": checked.rows,
                "errors": checked.errors,
                "warnings": len(checked.alarms) - checked.errors,
                "alarms": [alarm._asdict() for alarm in checked.alarms],
            }
        )
    else:
        _print_alarms(checked, path)
    if checked.errors:
        sys.exit(2)


def _print_alarms(checked: Checked, path: str) -> None:
    """Print errors, then warnings: the first few of each kind, and the number of the others."""
    console = stdout()
    traps: dict[tuple[str, str], list[Alarm]] = {}
    for alarm in checked.alarms:
        traps.setdefault((alarm.level, alarm.trap), []).append(alarm)
    for (level, trap), alarms in sorted(traps.items()):
        for alarm in alarms[:ALARMS_SHOWN]:
            console.print(f"{path}, {alarm}", markup=False, soft_wrap=True)
        if (more := len(alarms) - ALARMS_SHOWN) > 0:
            console.print(f"{path}: {level}: {more:,} more like this ({trap}; --json lists all)", soft_wrap=True)
    warnings = len(checked.alarms) - checked.errors
    console.print(f"{checked.rows:,} rows: {checked.errors:,} errors, {warnings:,} warnings")
