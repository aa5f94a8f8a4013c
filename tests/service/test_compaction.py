"""A compacted log says all that it said before, wherever the compaction was interrupted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gavelx.cli import main
from gavelx.errors import InputFileError, OptionError
from gavelx.service.loop import event_loop
from gavelx.service.state.replay import read_history, read_recorded
from gavelx.service.state.snapshots import compact, configuration_of, restore
from gavelx.service.state.state import State
from gavelx.service.store import log as log_module
from gavelx.service.store.log import Log
from gavelx.service.store.places import LogError
from tests.service.agents import FakeAgent, configuration, serving, spec, user_of
from tests.service.running import run
from tests.service.test_damage import edit
from tests.service.test_log import wakes
from tests.service.test_restart import plain
from tests.service.written_log import Writer
from tests.waiting import until

KILLED = """
import os, signal, sys
from gavelx.service.store import archive, database, log
log.CHUNK = 10
steps = int(sys.argv[2])
write = database.Store.write
def killed(self, statements):
    global steps
    def then(connection):
        global steps
        statements(connection)
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    write(self, then)
database.Store.write = killed
from gavelx.service.state.snapshots import compact
compact(sys.argv[1])
"""


def write_log(place: str, *, seed: int = 3, rounds: int = 8) -> None:
    """The log of a small busy cluster."""
    writer = Writer(seed)
    for _ in range(rounds):
        writer.submit()
        writer.round()
    log = Log(place)
    log.configure(writer.made_with.to_json())
    log.append(writer.records)
    log.close()


def said(place: str) -> tuple[object, ...]:
    """All that commands read in a log."""
    log = Log(place, read_only=True)
    made_with = configuration_of(log)
    assert made_with is not None
    state = restore(log, lambda: State(made_with)).state
    records = list(log.read())
    log.close()
    replayed, history = read_history(place)
    return records, plain(state), plain(replayed), history.leases, read_recorded(place).completion_s


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "CHUNK", 10)


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_and_the_log_goes_on(place: str, seed: int) -> None:
    write_log(place, seed=seed)
    before = said(place)
    count = len(before[0])  # type: ignore[arg-type]
    assert compact(place) == (count, count - 1)
    assert said(place) == before
    assert compact(place) == (count, 0)
    log = Log(place)
    more = wakes(count + 1, 25)
    log.append(more)
    assert [record.sequence for record in log.read()] == list(range(1, count + 26))
    assert list(log.read(after=count - 5))[5:] == more
    log.close()


def test_a_mark_of_an_archived_record_is_known_still(place: str) -> None:
    write_log(place)
    log = Log(place)
    old = log.mark
    log.append(wakes(log.last_sequence + 1, 30))
    while log.archive(log.last_sequence):
        pass
    assert log.check_mark(old, "server-1")
    edit(place, "update archive set first = first + 10000, last = last + 10000")
    with pytest.raises(LogError, match="server-1 knows record"):
        log.check_mark(old, "server-1")
    log.close()


@pytest.mark.parametrize("steps", [0, 2, 3])
def test_killed_at_any_step_it_says_the_same_and_is_finished_later(tmp_path: Path, steps: int) -> None:
    place = str(tmp_path / "state")
    write_log(place)
    before = said(place)
    done = subprocess.run([sys.executable, "-c", KILLED, place, str(steps)], check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    assert said(place) == before
    compact(place)
    assert said(place) == before


def test_a_log_in_use_is_refused_and_one_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    with pytest.raises((InputFileError, OptionError), match="there is no log"):
        compact(place)
    assert not Path(place).exists()
    write_log(place)
    service = Log(place)
    with pytest.raises(OptionError, match="another service is using it"):
        compact(place)
    service.close()


@pytest.mark.parametrize(
    "damage",
    [
        "update archive set records = substr(records, 1, 20) where first = 11",
        "delete from archive where first = 11",
        "update archive set first = 13 where first = 11",
    ],
)
def test_a_damaged_archive_is_noticed_by_who_reads_it_and_a_restart_does_without(
    tmp_path: Path, damage: str
) -> None:
    place = str(tmp_path / "state")
    write_log(place)
    _, state, *_ = said(place)
    compact(place)
    edit(place, damage)
    with pytest.raises(LogError, match="damaged at record 11"):
        read_recorded(place)
    log = Log(place)
    made_with = configuration_of(log)
    assert made_with is not None
    restored = restore(log, lambda: State(made_with))
    assert (plain(restored.state), restored.replayed) == (state, 0)
    log.close()


def test_a_damaged_record_is_not_archived(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    write_log(place)
    edit(place, "update events set body = replace(body, '1', '2') where sequence = 12")
    with pytest.raises(LogError, match="damaged at record 12"):
        compact(place)


def test_without_its_snapshots_the_archive_is_replayed(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    write_log(place)
    before = said(place)
    compact(place)
    edit(place, "delete from snapshots")
    assert said(place) == before


def test_the_command_says_how_many_records_it_archived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "state")
    write_log(place)
    with pytest.raises(SystemExit, match="0"):
        main(["log", "compact", place])
    assert "a restart begins at record" in capsys.readouterr().out


def test_a_scheduler_archives_what_is_before_its_snapshots_while_it_writes(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "SNAPSHOT_AFTER", 25)

    async def main() -> None:
        async with serving(place, configuration=configuration(round_s=0.2)) as service, user_of(service) as user:
            async with FakeAgent(service.address):
                jobs = [await user.submit(spec(steps=5.0 + n)) for n in range(12)]
                reader = Log(place, read_only=True)
                await until(lambda: reader._archive.rows(1), "the first record is archived")
                assert next(reader.read()).sequence == 1
                reader.close()
                await user.until("complete", *(job for some in jobs for job in some))

    run(main())
    records, state, replayed, *_ = said(place)
    assert [record.sequence for record in records] == list(range(1, len(records) + 1))  # type: ignore[attr-defined]
    assert state == replayed
