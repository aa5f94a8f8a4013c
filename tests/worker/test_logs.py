"""The output of jobs on the disk."""

from pathlib import Path

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.logs import Tail, segments_of


def test_files_with_numbers_that_no_message_can_hold_are_no_output(tmp_path: Path) -> None:
    """A job may create such files; its output is read without them."""
    lease = tmp_path / "1"
    lease.mkdir()
    (lease / "out.0.log").write_text("hello\n")
    for name in (f"out.0.{10**20}.log", f"out.{10**12}.log"):
        (lease / name).write_text("rubbish")
    assert list(segments_of(lease)) == [0]
    parts = Tail(wire.SendLog(request_id="r", job_id=1), "a").parts([lease])
    assert b"".join(part.log_part.chunk.text for part in parts) == b"hello\n"
