"""Damaged files: each one loads, or is refused with one short message that names the file.

A good file of every kind is damaged in hundreds of ways, drawn from a seed: bytes lost, doubled, overwritten;
cells, lines and values replaced by what people and programs put there by mistake.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gavelx.errors import UserError
from gavelx.files.importers import import_trace
from gavelx.files.locate import data_path
from gavelx.files.price_importers import Given, import_prices
from gavelx.files.price_tables import load_prices
from gavelx.files.results import read_usages
from gavelx.files.snapshots import read_snapshot, snapshot_to_json
from gavelx.files.spot_availability import load_availability
from gavelx.files.spot_history import load_spot_history
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import read_trace
from gavelx.prices import Prices
from gavelx.pricing.check import check_table
from tests.files.importers.samples import SAMPLES
from tests.files.price_importers.price_samples import SAMPLES as PRICE_LISTS

GOLDEN = Path(__file__).parents[1] / "data" / "golden_instances.json"
CELLS = [
    *(
        "",
        " ",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-1",
        "0",
        "-0",
        "1e999",
        "1e-999",
        "1_000",
        "0x10",
        "1,5",
        '"',
        '"x',
        "x",
    ),
    *(
        "9" * 400,
        "0.5",
        "4.0",
        "\0",
        "\r",
        "\n",
        "\t",
        "é",
        "١",
        "\u202e",
        "None",
        "null",
        "True",
        "#REF!",
        "x" * 9999,
    ),
]
VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        0.5,
        -0.0,
        1e308,
        10**30,
        10**400,
        "",
        "x",
        "0",
        "v100",
        [],
        [0],
        [[]],
        {},
        {"": 0},
    ),
    *({"v100": 1}, [1, 2, 3], "x" * 1000),
]


def damaged_bytes(chance: Random, content: bytes) -> bytes:
    """Some bytes lost, doubled, overwritten, or the end cut off."""
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice((1, 2, 10, 1000)))
    middle = chance.choice(
        (b"", content[start:end] * 2, chance.randbytes(end - start), b"\0", b"\xff", b'"', b",", b"\n", b"{", b"]")
    )
    return content[:start] + middle + (b"" if chance.random() < 0.1 else content[end:])


def damaged_cells(separator: str) -> Callable[[Random, bytes], bytes]:
    """A cell replaced, lost or swapped with another; lines lost, doubled or out of order."""

    def damage(chance: Random, content: bytes) -> bytes:
        lines = [line.split(separator) for line in content.decode().splitlines()]
        row = chance.choice(lines) if chance.random() < 0.8 else lines[0]
        cell = chance.randrange(len(row))
        match chance.randrange(6):
            case 0:
                del row[cell]
            case 1:
                chance.shuffle(row)
            case 2:
                lines.insert(chance.randrange(len(lines)), row)
            case 3:
                lines.remove(row)
            case _:
                row[cell] = chance.choice(CELLS)
        return "\n".join(map(separator.join, lines)).encode()

    return damage


def damaged_values(chance: Random, content: bytes) -> bytes:
    """A value somewhere in the JSON replaced, or a key or element lost."""
    whole = json.loads(content)
    place: Any = whole
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chance.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key] or chance.random() < 0.2:
            break
        place = place[key]
    if chance.random() < 0.3:
        del place[key]
    else:
        place[key] = chance.choice(VALUES)
    return json.dumps(whole).encode()


TABLE = load_throughputs("simulation")
SEPARATORS = {"gavel": "\t", "shockwave": "\t", "slurm": "|", "jobcomp": " "}


def imported(name: str) -> Callable[[Path], object]:
    """Reads a file as what it was before it was damaged."""
    return lambda path: import_trace(path, TABLE, format=SAMPLES[name].format)


def head(path: Path, lines: int = 12) -> bytes:
    return b"\n".join(path.read_bytes().splitlines()[:lines])


def own_snapshot() -> bytes:
    return json.dumps(snapshot_to_json(read_snapshot(GOLDEN, 12))).encode()


def instance() -> bytes:
    return json.dumps(json.loads(GOLDEN.read_bytes())[12]).encode()


def prices(path: Path) -> object:
    return load_prices(path, ["v100", "k80"], strict=False)


def checked_prices(path: Path) -> None:
    checked = check_table(path)
    if checked.errors:
        raise UserError(str(next(alarm for alarm in checked.alarms if alarm.level == "error")), where=str(path))


def spot_prices(path: Path) -> object:
    return load_spot_history(path, Prices({}), ["v100", "k80"])


def nodes(path: Path) -> object:
    return load_availability(path, ["v100", "k80"])


def price_list(format: str) -> Callable[[Path], object]:
    return lambda path: import_prices(format, [path], Given("x", rates={"EUR": Decimal(1)}), skip_bad_rows=False)


def result() -> bytes:
    job = {"job_id": 0, "owner": "a", "device_s": {"v100": 3600.0}}
    return json.dumps(
        {"policy": "fifo", "idle_device_s": {"v100": 0.0, "k80": 1.0}, "per_job": [job, job | {"job_id": 1}]}
    ).encode()


NODES = b"accelerator,nodes_requested,offset_s,duration_s,nodes_available\nV100,2,0,9000,2\nK80,2,10,9000,1\n"
KINDS: dict[str, tuple[Callable[[], bytes], Callable[[Path], object], Callable[[Random, bytes], bytes]]] = {
    "trace": (lambda: head(data_path("traces", "shockwave_120")), read_trace, damaged_cells(",")),
    "throughputs": (lambda: head(data_path("throughputs", "isolated")), load_throughputs, damaged_cells(",")),
    "prices": (lambda: head(data_path("prices", "prices")), prices, damaged_cells(",")),
    "checked prices": (lambda: head(data_path("prices", "prices")), checked_prices, damaged_cells(",")),
    "spot history": (lambda: head(data_path("prices", "spot_history")), spot_prices, damaged_cells(",")),
    "availability": (lambda: NODES, nodes, damaged_cells(",")),
    "result": (result, read_usages, damaged_values),
    **{
        f"{name} prices": (text.encode, price_list(name), damaged_values if text[0] == "{" else damaged_cells(","))
        for name, text in PRICE_LISTS.items()
    },
    "snapshot": (own_snapshot, read_snapshot, damaged_values),
    "instance": (instance, read_snapshot, damaged_values),
    **{
        name: (
            sample.text.encode,
            imported(name),
            damaged_values if name == "philly_log" else damaged_cells(SEPARATORS.get(sample.format, ",")),
        )
        for name, sample in SAMPLES.items()
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["bytes", "parts"])
def test_damaged_files_load_or_are_refused(tmp_path: Path, kind: str, by: str) -> None:
    good, read, damaged_parts = KINDS[kind]
    path, content = tmp_path / "damaged.csv", good()
    path.write_bytes(content)
    read(path)
    refused = 0
    for seed in range(300):
        chance = Random(seed)
        path.write_bytes((damaged_bytes if by == "bytes" else damaged_parts)(chance, content))
        try:
            read(path)
        except UserError as error:
            refused += 1
            assert "damaged.csv" in str(error), (seed, str(error))
            assert len(str(error)) < 900, (seed, str(error))
            assert "\0" not in str(error), seed
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert refused > 60


@pytest.mark.parametrize("name", SAMPLES)
def test_bad_rows_are_left_out_by_number(tmp_path: Path, name: str) -> None:
    """However the rows below the first are damaged, the good ones give the jobs that they gave before."""
    text = SAMPLES[name].text
    damage = damaged_cells(SEPARATORS.get(SAMPLES[name].format, ","))
    path, refused = tmp_path / "damaged.txt", 0
    for seed in range(100):
        chance = Random(seed)
        if name == "philly_log":
            content = damaged_values(chance, text.encode())
        else:
            first, _, rest = text.partition("\n")
            content = (first + "\n").encode() + damage(chance, rest.encode())
        path.write_bytes(content)
        try:
            whole = import_trace(path, TABLE, format=SAMPLES[name].format, skip_bad_rows=True)
        except UserError as error:
            refused += 1
            assert "the trace has no jobs" in str(error) or "is no list" in str(error), (seed, str(error))
            continue
        rows = path.read_text(errors="replace").split("\n")
        assert all(0 < bad.row <= len(rows) and bad.problem for bad in whole.skipped), seed
        assert whole.rows >= len(whole.jobs) + len(whole.skipped), seed
        if whole.skipped:
            with pytest.raises(UserError, match=rf"damaged.txt, row {whole.skipped[0].row}\b"):
                import_trace(path, TABLE, format=SAMPLES[name].format)
    assert refused < 60
