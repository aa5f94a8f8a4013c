"""The measured speeds of modern jobs and devices that gavelx ships: ``throughputs/modern.csv``."""

from functools import cache

from gavelx.files.csvs import read_rows
from gavelx.files.locate import data_path
from gavelx.files.throughput_tables import COLUMNS, setting_of, speed_of
from gavelx.measurements import Measurement


@cache
def shipped_measurements() -> tuple[Measurement, ...]:
    """Every row of ``modern.csv``, as a measurement with its source and date."""
    return tuple(
        Measurement(
            setting_of(row),
            speed,
            measured_at=row.text("published", ""),
            source=row.text("source", ""),
        )
        for row in read_rows(data_path("throughputs", "modern"), COLUMNS)
        if (speed := speed_of(row)) is not None
    )
