"""What a command does when nobody reads its output to the end."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

COMMANDS = {
    "a table": ["policies"],
    "JSON": ["trace", "show", "gavel_msr_e13805", "--json"],
    "help": ["compare", "--help"],
    "the version": ["--version"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_reader_who_leaves_is_no_failure(command: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gavelx", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate()
    assert (process.returncode, said) == (0, b"")


def test_a_mistake_is_one_even_if_nobody_reads_on() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gavelx", "simulate", "--policy", "ffo", "--cluster", "v100=1", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate()
    assert process.returncode == 2
    assert b"unknown policy" in said


def test_a_full_disk_is_a_failure() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "gavelx", "policies", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"gavelx: [Errno 28] No space left on device\n"
