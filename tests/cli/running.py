"""Run a command in this process, as a shell would."""

import json
from typing import Any, NamedTuple

import pytest

from gavelx.cli import main


class Ran(NamedTuple):
    """What a shell sees of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """``shell("policies", "--json")`` runs a command and gives exit code, stdout and stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Ran:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self.capsys.readouterr()
        return Ran(code, out, err)
