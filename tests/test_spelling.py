"""Job types may be spelled otherwise than in the table, wherever that is unambiguous."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.errors import InputFileError
from gavelx.files.overhead_tables import load_overheads
from gavelx.files.throughput_tables import TABLES, load_throughputs
from gavelx.files.traces import read_trace
from gavelx.spelling import key, meant, nearest

KNOWN = load_throughputs("simulation").job_types
TRACE = "job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,{},1,5\n"


@pytest.mark.parametrize("table", TABLES)
def test_no_two_names_of_a_table_share_a_key(table: str) -> None:
    names = load_throughputs(table).job_types
    assert len({key(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("resnet18-bs32", "ResNet-18 (batch size 32)"),
        ("ResNet-18 (Batch Size 32)", "ResNet-18 (batch size 32)"),
        ("resnet_18_batch_size_32", "ResNet-18 (batch size 32)"),
        ("lm-bs5", "LM (batch size 5)"),
        ("cycle-gan", "CycleGAN"),
        ("a3c", "A3C"),
        ("resnet18", None),
        ("resnet183-2", None),
        ("lm-5", None),
        ("", None),
        ("()", None),
        ("rеsnet18-bs32", None),  # a Cyrillic letter
    ],
)
def test_what_is_meant(text: str, name: str | None) -> None:
    assert meant(text, KNOWN) == name


def test_two_names_with_one_key_are_told_apart_by_their_very_spelling_only() -> None:
    known = ("net-1", "NET 1", "other")
    assert meant("net-1", known) == "net-1"
    assert meant("Net1", known) is None
    assert nearest("Net1", known) == "did you mean 'net-1' or 'NET 1'?"


def test_what_is_near_is_found_by_key() -> None:
    assert nearest("resnet18-bs33", KNOWN).startswith("did you mean 'ResNet-18 (batch size ")
    assert nearest("quite another", ["net"]) == "one of net"


@given(st.text(max_size=40))
def test_a_spelling_means_one_name_or_none(text: str) -> None:
    assert meant(text, KNOWN) in {None, *KNOWN}
    assert nearest(text, KNOWN)


def test_files_may_spell_types_too(tmp_path: Path) -> None:
    trace, overheads = tmp_path / "trace.csv", tmp_path / "overheads.csv"
    trace.write_text(TRACE.format("transformer bs64"))
    assert [job.job_type for job in read_trace(trace, KNOWN)] == ["Transformer (batch size 64)"]
    trace.write_text(TRACE.format("transformer bs65"))
    with pytest.raises(InputFileError, match=r"row 2, column job_type.*did you mean 'Transformer"):
        read_trace(trace, KNOWN)
    overheads.write_text("job_type,checkpoint_s,restart_s\nlm-bs5,1,2\n")
    assert load_overheads(str(overheads), KNOWN).by_type.keys() == {"LM (batch size 5)"}
