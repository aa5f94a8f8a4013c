"""Whatever becomes of a log on its disk: a service goes on as before, or says that the log is damaged or lost."""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from gavelx.cli import main
from gavelx.errors import InputFileError, OptionError
from gavelx.mechanism.events import LeaseEnded
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.plain import FORMAT, to_plain
from gavelx.service.state.replay import read_history, read_recorded
from gavelx.service.state.snapshots import configuration_of, restore
from gavelx.service.state.state import State
from gavelx.service.store.log import CHUNK, Log
from gavelx.service.store.places import FILE, LogError
from gavelx.service.store.records import VERSION, Entry, record_of
from tests.service.agents import configuration, spec, stopped, user_of
from tests.service.desk import Desk
from tests.service.running import run
from tests.service.test_log import wakes
from tests.service.test_restart import plain
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

FLIPS, CUTS, HOLES = 120, 30, 50
REMOVED = "was removed or replaced while the service wrote to it"


class Story:
    """A log in which jobs came, ran and ended; and the state that follows from it."""

    def __init__(self, place: str, *, snapshot: bool = False) -> None:
        self.place, self.desk = place, Desk()
        asyncio.run(self._happen())
        log = Log(place)
        log.configure(configuration().to_json())
        log.append([record_of(n, entry) for n, entry in enumerate(self.desk.log, start=1)])
        if snapshot:
            log.save_snapshot(log.last_sequence, FORMAT, to_plain(self.desk.state))
        self.last, self.id = log.last_sequence, log.id
        log.close()

    async def _happen(self) -> None:
        await self.desk.agent("one", 2)
        await self.desk.agent("two", 1)
        self.desk.submit(*range(10, 18))
        for now_s in range(1, 9):
            self.desk.now_s = float(now_s)
            self.desk.wake()
            for leased in list(self.desk.state.runs.values())[:2]:
                lease, complete = leased.lease, now_s % 2 == 0
                end = LeaseEnded(self.desk.now_s, lease.id, lease.job_id, 5.0 * now_s, 1.0, complete=complete)
                self.desk._apply([Entry(end, {"reason": "its turn is over"})])

    def is_intact(self, place: str | None = None) -> bool:
        """Whether a service goes on where this one was; raises what it says instead."""
        log = Log(place or self.place)
        try:
            state = restore(log, lambda: State(configuration_of(log) or configuration())).state
            assert (log.last_sequence, log.id) == (self.last, self.id)
            found, expected = plain(state), plain(self.desk.state)
            assert {name for name in expected if found[name] != expected[name]} == set()
            return True
        finally:
            log.close()


def edit(place: str, *statements: str) -> None:
    """Somebody's hand in the tables."""
    engine = sa.create_engine(
        place.replace("postgresql:", "postgresql+psycopg:") if "://" in place else f"sqlite:///{place}/{FILE}"
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def before_checksums(place: str) -> None:
    """Make it the log of a gavelx that had none."""
    edit(
        place,
        "update events set version = 1, body = substr(body, 10)",
        "delete from facts where name not in ('format', 'id', 'configuration')",
    )


# -- bytes -----------------------------------------------------------------------------------------------------


def flipped(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """One bit; every fourth time in what says where everything is."""
    for n in range(FLIPS):
        at = chance.randrange(len(data) if n % 4 else 4096)
        yield data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def holed(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Zeros or noise over a few bytes, a sector, a page."""
    for n in range(HOLES):
        size = chance.choice((1, 2, 16, 512, 4096, 8192))
        at = chance.randrange(len(data) - size) // size * size
        yield data[:at] + (bytes(size) if n % 2 else chance.randbytes(size)) + data[at + size :]


def cut(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Only the beginning of it."""
    yield from (data[: chance.randrange(len(data))] for _ in range(CUTS))


@pytest.mark.parametrize("snapshot", [False, True], ids=["records", "snapshot"])
@pytest.mark.parametrize("harm", [flipped, holed, cut])
def test_a_damaged_file_is_said_to_be_damaged_or_changes_nothing(
    tmp_path: Path, harm: Any, snapshot: bool
) -> None:
    story, harmed, said = Story(str(tmp_path / "good"), snapshot=snapshot), tmp_path / "harmed", 0
    shutil.copytree(tmp_path / "good", harmed)
    lock = (harmed / f"{FILE}.lock").read_bytes()
    for data in harm((tmp_path / "good" / FILE).read_bytes(), random.Random(0)):
        for beside in harmed.iterdir():
            beside.unlink()
        (harmed / FILE).write_bytes(data)
        (harmed / f"{FILE}.lock").write_bytes(lock)
        try:
            assert story.is_intact(str(harmed))
        except LogError as error:
            said += 1
            assert any(words in str(error) for words in ("it is damaged", "it ends at record", "nothing is in")), (
                error
            )
    assert said


# -- records ---------------------------------------------------------------------------------------------------

EDITS = {
    "a figure": "update events set body = replace(body, '5.0', '6.0') where kind = 'LeaseEnded'",
    "a time": "update events set time_s = time_s + 1 where sequence = 7",
    "a kind": "update events set kind = 'Wake' where sequence = 9",
    "half of one": "update events set body = substr(body, 1, 20) where sequence = 8",
    "no JSON": "update events set body = substr(body, 1, 9) || 'garbage' where sequence = 8",
    "nothing": "update events set body = '' where sequence = 8",
    "a checksum": "update events set body = '00000000' || substr(body, 9) where sequence = 8",
    "as without checksums": "update events set version = 1 where sequence = 8",
    "the last as without checksums": "update events set version = 1 where sequence >= 20",
    "one is missing": "delete from events where sequence = 8",
    "the first is missing": "delete from events where sequence = 1",
    "all are missing": "delete from events",
    "one more": "insert into events values (1000, 0, 2, 'Wake', '00000000 {}')",
    "the configuration": "update facts set value = replace(value, '100.0', '200.0') where name = 'configuration'",
    "the id": "update facts set value = 'x' where name = 'id'",
    "no id": "delete from facts where name = 'id'",
    "no checksum of these": "delete from facts where name = 'check'",
    "no facts": "delete from facts",
}


@pytest.mark.parametrize("what", EDITS)
def test_a_record_that_is_not_what_was_written_is_noticed(place: str, what: str) -> None:
    story = Story(place)
    assert story.is_intact()
    edit(place, EDITS[what])
    with pytest.raises(LogError, match=r"it is damaged|no record any more|it ends at record"):
        story.is_intact()


def test_the_message_names_the_record_and_what_to_do(place: str) -> None:
    story = Story(place)
    edit(place, EDITS["no JSON"])
    with pytest.raises(LogError, match=r"it is damaged at record 8: its checksum .*restore a backup"):
        story.is_intact()
    for read in (read_recorded, read_history):
        with pytest.raises(LogError, match="damaged at record 8"):
            read(place)


def test_two_records_that_changed_places_are_noticed(place: str) -> None:
    story = Story(place)
    edit(
        place,
        "update events set sequence = 1000 where sequence = 5",
        "update events set sequence = 5 where sequence = 6",
        "update events set sequence = 6 where sequence = 1000",
    )
    with pytest.raises(LogError, match="damaged at record 5"):
        story.is_intact()


def test_a_damaged_snapshot_is_not_used(place: str, caplog: pytest.LogCaptureFixture) -> None:
    story = Story(place, snapshot=True)
    log = Log(place)
    assert log.snapshot(FORMAT) is not None
    log.close()
    for harm in ("set state = substr(state, 1, 500)", "set sequence = sequence - 3", "set code = 'another'"):
        edit(place, f"update snapshots {harm}")
        assert story.is_intact()
    assert "is damaged, and not used" in caplog.text


def test_a_snapshot_of_other_records_is_not_used(place: str) -> None:
    story = Story(place, snapshot=True)
    edit(place, f"update events set body = '00000000' || substr(body, 9) where sequence = {story.last}")
    with pytest.raises(LogError, match=f"(damaged at|knows) record {story.last}"):
        story.is_intact()


# -- logs from before there were checksums ---------------------------------------------------------------------


def test_an_old_log_is_read_and_goes_on_with_checksums(place: str) -> None:
    story = Story(place)
    before_checksums(place)
    reader = Log(place, read_only=True)
    assert len(list(reader.read())) == story.last
    reader.close()
    for _ in range(2):  # it may be opened and left alone
        assert story.is_intact()
    log = Log(place)
    assert log.mark == ""
    log.append(wakes(story.last + 1, CHUNK + 3))
    records = list(log.read())
    assert [record.sequence for record in records] == list(range(1, story.last + CHUNK + 4))
    assert {record.version for record in records} == {1, VERSION}
    assert list(log.read(after=story.last - 2))[2:] == wakes(story.last + 1, CHUNK + 3)
    log.close()
    edit(place, "update events set body = replace(body, '5.0', '6.0') where kind = 'LeaseEnded'")
    log = Log(place)
    with pytest.raises(LogError, match=f"damaged at record {story.last + 1}"):  # the first that knows of it
        list(log.read())
    log.close()


@pytest.mark.parametrize("body", ["garbage", "1", "[]", "{}", '{"job": {}}', '{"server": 1}', "[" * 5000])
def test_garbage_in_an_old_log_is_no_mistake_of_ours(tmp_path: Path, body: str) -> None:
    story = Story(str(tmp_path / "good"))
    before_checksums(story.place)
    kinds = {type(entry.event).__name__ for entry in story.desk.log} - {"Wake"}
    assert len(kinds) == 4
    for kind in kinds:
        harmed = str(tmp_path / kind)
        shutil.copytree(story.place, harmed)
        edit(harmed, f"update events set body = '{body}' where kind = '{kind}'")
        with pytest.raises(InputFileError, match=r"record \d+.*restore a backup"):
            story.is_intact(harmed)


def test_the_command_says_that_the_log_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(str(tmp_path))
    edit(story.place, EDITS["no JSON"])
    for words in (["serve", "--listen", "127.0.0.1:0", "--state"], ["replay", "--policy", "fifo"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, story.place])
        said = capsys.readouterr().err
        assert ended.value.code == 2 and "it is damaged at record 8" in said and "mistake" not in said, said


@pytest.mark.parametrize("configuration", ["garbage", "1", "[]", "{}", '{"rules": 1}'])
def test_a_configuration_that_cannot_be_read_is_no_mistake_of_ours(tmp_path: Path, configuration: str) -> None:
    story = Story(str(tmp_path))
    before_checksums(str(tmp_path))
    edit(str(tmp_path), f"update facts set value = '{configuration}' where name = 'configuration'")
    with pytest.raises(LogError, match="configuration"):
        story.is_intact()


# -- lost ------------------------------------------------------------------------------------------------------


def emptied(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


def removed(folder: Path) -> None:
    (folder / FILE).unlink()


def another(folder: Path) -> None:
    (folder / FILE).unlink()
    sqlite3.connect(folder / FILE).execute("create table notes (text)").connection.close()


@pytest.mark.parametrize("loss", [emptied, removed, another])
def test_a_log_that_was_lost_is_not_silently_a_new_one(tmp_path: Path, loss: Callable[[Path], None]) -> None:
    Story(str(tmp_path))
    loss(tmp_path)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(LogError, match=r"a log was here.*--restored.*--new begins another"):
            Log(str(tmp_path))
    assert kept == {path.name: path.read_bytes() for path in tmp_path.iterdir()} or loss is another
    log = Log(str(tmp_path), new=True)
    log.append(wakes(1, 2))
    log.close()
    with pytest.raises(OptionError, match="--new only where one was lost"):
        Log(str(tmp_path), new=True)
    Log(str(tmp_path)).close()


def test_what_was_not_yet_in_the_file_is_missed(tmp_path: Path) -> None:
    """The service was killed, and what SQLite keeps beside the file was removed."""
    here, copy = tmp_path / "here", tmp_path / "copy"
    log = Log(str(here))
    log.append(wakes(1, 3))
    shutil.copytree(here, copy)
    log.close()
    (copy / f"{FILE}-wal").unlink()
    with pytest.raises(LogError, match="a log was here, and nothing is in it any more"):
        Log(str(copy))


def test_a_log_that_could_not_be_begun_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("gavelx.service.store.database.METADATA.create_all", full)
        with pytest.raises(sqlite3.OperationalError):
            Log(str(tmp_path))
    assert not list(tmp_path.iterdir())
    Log(str(tmp_path)).close()


def test_an_older_copy_in_its_place_has_to_be_called_one(tmp_path: Path) -> None:
    log = Log(str(tmp_path))
    log.append(wakes(1, 3))
    with closing(sqlite3.connect(tmp_path / "backup.sqlite")) as backup:
        with closing(sqlite3.connect(tmp_path / FILE)) as source:
            source.backup(backup)
    log.append(wakes(4, 2))
    log.save_snapshot(5, FORMAT, b"five")
    before = log.id
    log.close()
    (tmp_path / "backup.sqlite").replace(tmp_path / FILE)
    with pytest.raises(LogError, match=r"the lock file knows record 5, .* it ends at record 3.*--restored"):
        Log(str(tmp_path))
    restored = Log(str(tmp_path), restored=True)
    assert restored.id != before and restored.last_sequence == 3
    restored.close()
    again = Log(str(tmp_path))
    again.append(wakes(4, 1))
    again.close()


def test_an_end_that_is_missing_is_noticed_by_a_snapshot(place: str) -> None:
    story = Story(place, snapshot=True)
    edit(place, f"delete from events where sequence > {story.last - 2}")
    with pytest.raises(LogError, match=f"it ends at record {story.last - 2}"):
        Log(place)
    log = Log(place, restored=True)
    assert log.snapshot(FORMAT) is None
    log.close()
    Log(place).close()


# -- under a running service -----------------------------------------------------------------------------------


def rm_rf(folder: Path) -> None:
    shutil.rmtree(folder)


def rm_file(folder: Path) -> None:
    (folder / FILE).unlink()


def rm_wal(folder: Path) -> None:
    (folder / f"{FILE}-wal").unlink()


def rm_lock(folder: Path) -> None:
    (folder / f"{FILE}.lock").unlink()


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    shutil.copy(folder / FILE, folder / "copy")
    (folder / "copy").replace(folder / FILE)


@pytest.mark.parametrize("again", ["Submit", "Cancel"])
def test_what_was_promised_before_is_not_promised_again_once_the_log_is_gone(tmp_path: Path, again: str) -> None:
    """Nothing would be written for it."""
    requests = {
        "Submit": wire.SubmitRequest(version=1, jobs=[spec(request_id="mine")]),
        "Cancel": wire.CancelRequest(version=1, job_id=0),
    }

    async def main() -> None:
        async with stopped(REMOVED, tmp_path / "state") as service, user_of(service) as user:
            for _ in range(2):
                for method in ("Submit", "Cancel"):
                    await user.call(method, requests[method])
            rm_rf(tmp_path / "state")
            with pytest.raises(grpc.aio.AioRpcError, match="the log is not what it was"):
                await user.call(again, requests[again])
            await asyncio.wait_for(service.serve(), PATIENCE_S)

    run(main())


@pytest.mark.parametrize("loss", [rm_rf, rm_file, rm_wal, rm_lock, moved, replaced])
def test_a_log_that_is_removed_under_a_service_is_noticed_before_anything_else_is_promised(
    tmp_path: Path, loss: Callable[[Path], None]
) -> None:
    async def main() -> None:
        async with stopped(REMOVED, tmp_path / "state") as service, user_of(service) as user:
            await user.submit(spec())
            loss(tmp_path / "state")
            with pytest.raises(grpc.aio.AioRpcError, match="the log is not what it was") as refused:
                await user.submit(spec())
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            await asyncio.wait_for(service.serve(), PATIENCE_S)

    run(main())


def test_a_database_that_comes_back_as_an_older_copy_is_noticed(place: str) -> None:
    log = Log(place)
    log.append(wakes(1, 5))
    log._store.disconnect()
    edit(place, "delete from events where sequence > 3")
    with pytest.raises(LogError, match="it ends at record 3 now, and ended at 5"):
        log.append(wakes(6, 1))
    log.close()
