"""A state as plain data: what is read back goes on as the one that was written."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.mechanism import leasing
from gavelx.mechanism.commands import Launch
from gavelx.mechanism.events import Wake
from gavelx.service.state.plain import UnreadableError, from_plain, to_plain
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry, Record, entry_of
from tests.service.written_log import figures, said, written

LOG = written(seed=7)
ENTRIES = [entry_of(Record(n, *record)) for n, record in enumerate(LOG["records"], 1)]


def fresh() -> State:
    return State(Configuration.from_json(LOG["configuration"]))


def document_of(data: bytes) -> dict[str, Any]:
    return dict(json.loads(zlib.decompress(data)))


def data_of(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document).encode())


def after(number: int) -> State:
    """The state after so many records."""
    state = fresh()
    for entry in ENTRIES[:number]:
        state.apply(entry)
    return state


@pytest.mark.parametrize("part", [0.0, 0.1, 0.37, 0.5, 0.83, 1.0])
def test_a_state_that_was_read_goes_on_as_the_one_that_was_written(part: float) -> None:
    number = int(part * len(ENTRIES))
    state = after(number)
    data = to_plain(state)
    read = from_plain(data, like=fresh())
    assert isinstance(read, State)
    assert to_plain(read) == data
    read.mechanism.validate()
    for entry in ENTRIES[number:]:
        assert said(read.apply(entry)) == said(state.apply(entry))
    assert figures(read) == figures(state)
    assert to_plain(read) == to_plain(state)


def test_a_plan_that_is_half_carried_out_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "PORTION", 1)
    state, entries = fresh(), iter(ENTRIES)
    while state.mechanism._chosen is None:
        state.apply(next(entries))
    read = from_plain(to_plain(state), like=fresh())
    launched = 0
    for _ in range(20):
        commands = read.apply(Entry(Wake(state.now_s)))
        assert said(commands) == said(state.apply(Entry(Wake(state.now_s))))
        launched += sum(isinstance(command, Launch) for command in commands)
    assert launched > 1
    assert read.mechanism._chosen is None
    assert to_plain(read) == to_plain(state)


@pytest.mark.parametrize("name", ["paid_devices", "saved_steps", "done", "throughput"])
def test_other_columns_are_told_and_not_read(name: str) -> None:
    text = json.dumps(document_of(to_plain(after(40))))
    assert f'"{name}"' in text
    other = json.loads(text.replace(f'"{name}"', '"zzz"'))
    with pytest.raises(UnreadableError, match=rf"LiveJobs has other columns now \({name}, zzz\)"):
        from_plain(data_of(other), like=fresh())


def test_other_fields_are_told_and_not_read() -> None:
    document = document_of(to_plain(after(40)))
    for shape in document["shapes"]:
        changed = document | {"shapes": [s if s is not shape else [*s, "zzz"] for s in document["shapes"]]}
        with pytest.raises(UnreadableError, match=rf"{shape[0]} has other fields now \(zzz\)"):
            from_plain(data_of(changed), like=fresh())


@pytest.mark.parametrize(
    "name", ["os:system", "gavelx.gone:Job", "gavelx.jobs:Gone", "gavelx.jobs:math", "subprocess:Popen"]
)
def test_no_class_of_others_is_made(name: str) -> None:
    document = document_of(to_plain(after(5)))
    document["shapes"][0][0] = name
    with pytest.raises(UnreadableError):
        from_plain(data_of(document), like=fresh())


@settings(max_examples=60)
@given(st.data())
def test_data_that_are_no_state_are_told(draw: st.DataObject) -> None:
    """Whatever is changed in the data: it is read, or told to be unreadable."""
    document = document_of(to_plain(after(30)))
    number = draw.draw(st.integers(0, len(document["objects"]) - 1))
    place = draw.draw(st.integers(0, len(document["objects"][number]) - 1))
    wrong = st.sampled_from([None, -1, 10**6, "x", [], [1, 2], ["nan2"], {"a": 1}, [10**6], ["list"], 0.5])
    document["objects"][number][place] = draw.draw(wrong)
    try:
        from_plain(data_of(document), like=fresh())
    except UnreadableError as error:
        assert str(error)
