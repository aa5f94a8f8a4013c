from pathlib import Path

import pytest

from gavelx.errors import InputFileError, OptionError, UserError
from gavelx.files.throughput_tables import TABLES, load_throughputs
from gavelx.throughputs import Pairing, Setting

HEADER = "job_type,scale_factor,accelerator,steps_per_second,consolidated,status\n"


def load(folder: Path, content: str):
    path = folder / "mine.csv"
    path.write_text(content)
    return load_throughputs(path)


def test_the_simulation_table() -> None:
    table = load_throughputs("simulation")
    assert table.name == "simulation"
    assert len(table.job_types) == 26
    assert table.job_types[:3] == ("A3C", "CycleGAN", "LM (batch size 5)")
    assert set(table.accelerators) == {"k80", "p100", "v100"}
    assert table.get("A3C", "v100") > table.get("A3C", "k80") > 0


def test_zero_and_unknown_are_kept_apart() -> None:
    table = load_throughputs("simulation")
    assert table.get("ResNet-50 (batch size 128)", "k80", 2) == 0.0
    assert table.get("ResNet-50 (batch size 128)", "k80", 2, consolidated=False) is None
    assert table.get("A3C", "v100", 2) is None


@pytest.mark.parametrize("name", ["simulation", "physical"])
def test_pairs_stand_in_both_orders(name: str) -> None:
    pairs = load_throughputs(name).colocated
    assert len(pairs) == 3 * 26 * 26
    assert pairs[Pairing("A3C", "LM (batch size 10)", "k80")] == 2.0529123635565836
    assert pairs[Pairing("LM (batch size 10)", "A3C", "k80")] == 8.731752253858454
    assert pairs[Pairing("A3C", "ResNet-50 (batch size 128)", "k80")] == 0.0


@pytest.mark.parametrize("name", TABLES)
def test_every_shipped_table_loads(name: str) -> None:
    assert load_throughputs(name).isolated


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    table = load(
        tmp_path,
        HEADER + "mine,1,H100,2.5,,\nmine,1,h100,1.5,0,ok\nmine,2,H100,,1,not_runnable\nmine,4,H100,,,\n"
        "mine,8,H100,3,1,absent\n",
    )
    assert table.isolated == {
        Setting("mine", "h100"): 2.5,
        Setting("mine", "h100", 1, False): 1.5,
        Setting("mine", "h100", 2): 0.0,
    }
    assert not table.colocated


def test_the_fewest_columns(tmp_path: Path) -> None:
    table = load(tmp_path, "accelerator,scale_factor,job_type,steps_per_second,model\nX,1,mine,0,m\n")
    assert table.isolated == {Setting("mine", "x"): 0.0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("job_type,scale_factor,steps_per_second\n", "row 1: the column 'accelerator' is missing"),
        (HEADER, "no row has a speed"),
        (HEADER + "a,1,x,-1,,\n", "row 2, column steps_per_second: '-1' cannot be used"),
        (HEADER + "a,1,x,NaN,,\n", "row 2, column steps_per_second: 'NaN' cannot be used"),
        (HEADER + "a,1,x,,,ok\n", "row 2, column steps_per_second: the cell is empty"),
        (HEADER + "a,0,x,1,,\n", "row 2, column scale_factor: '0' cannot be used"),
        (HEADER + "a,1,x,1,2,\n", "row 2, column consolidated: '2' cannot be used"),
        (HEADER + "a,1,x,1,,okay\n", "row 2, column status: 'okay' is not known. Try: did you mean 'ok'"),
        (HEADER + "a,1,x,1,,\n\na,1,X,2,1,\n", "row 4: the same setting is in row 2 already"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        load(tmp_path, content)
    assert "mine.csv" in str(caught.value)


def test_several_tables_in_one_file_are_not_mixed() -> None:
    from gavelx.files.locate import data_path

    with pytest.raises(InputFileError, match=r"keep the rows of one table.*simulation"):
        load_throughputs(data_path("throughputs", "isolated"))


def test_an_unknown_table() -> None:
    with pytest.raises(OptionError, match=r"neither a table nor a file 'simulatoin'.*did you mean 'simulation'"):
        load_throughputs("simulatoin")
    with pytest.raises(InputFileError, match=r"mine.csv: there is no such file"):
        load_throughputs("mine.csv")


@pytest.mark.parametrize("name", ["", ".", "x" * 10_000, "a\0b"])
def test_texts_that_can_be_nothing(name: str) -> None:
    with pytest.raises(UserError) as caught:
        load_throughputs(name)
    assert len(str(caught.value)) < 400
