"""Throughput tables with sizes of elastic jobs: other batch sizes, and noise scales."""

from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.throughput_writing import write_throughputs
from gavelx.throughputs import Setting, Size, Throughputs

HEAD = "job_type,scale_factor,accelerator,steps_per_second,update_batch,noise_scale\n"
TABLE = Throughputs(
    {Setting("net", "v100"): 10.0, Setting("net", "v100", 2): 9.0, Setting("other", "v100"): 1.5},
    sizes={Size("net", "v100", 1, 128): 6.0, Size("net", "v100", 2, 256, consolidated=False): 5.0},
    noise_scale={"net": 300.0},
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_throughputs(tmp_path / "speeds.csv", TABLE)
    found = load_throughputs(tmp_path / "speeds.csv")
    assert (found.isolated, found.sizes, found.noise_scale) == (TABLE.isolated, TABLE.sizes, TABLE.noise_scale)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("net,1,v100,10,,\nnet,1,v100,6,128,\nnet,1,v100,5,128,\n", "row 4.*same size"),
        ("net,1,v100,10,,300\nnet,1,v100,6,128,200\n", "row 3.*noise scale 300.*200"),
        ("net,1,v100,10,,\nnet,1,v100,6,0,\n", "row 3.*update_batch"),
        ("net,1,v100,10,,\nnet,1,v100,6,1.5,\n", "row 3.*update_batch"),
        ("net,1,v100,10,,\nnet,1,v100,6,many,\n", "row 3.*update_batch"),
        ("net,1,v100,10,,-1\n", "row 2.*noise_scale"),
        ("net,1,v100,10,,nan\n", "row 2.*noise_scale"),
        ("net,1,v100,6,128,\n", "no row has a speed"),
    ],
)
def test_a_mistake_names_row_and_column(tmp_path: Path, rows: str, says: str) -> None:
    path = tmp_path / "speeds.csv"
    path.write_text(HEAD + rows)
    with pytest.raises(InputFileError, match=says):
        load_throughputs(path)
