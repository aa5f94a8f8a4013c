"""Reading a user's text file, with a clear message if it is not one.

A path may lead to nothing, a folder, a picture, or ten megabytes without a line end. For each there is one short
message that names the file, without a long wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gavelx.errors import InputFileError
from gavelx.files.limits import LINE_LIMIT, TEXT_LIMIT


def read_lines(path: str | Path, *, replace: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time, with their line ends; a byte-order mark is skipped.

    With ``replace``, bytes that are not UTF-8 become U+FFFD instead of an error.

    Raises :class:`InputFileError`: missing, a folder, unreadable, empty, not UTF-8, or not text at all.
    """
    with _opened(path) as file:
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            if len(line) > LINE_LIMIT:
                where = f"{path}, row {number}"
                raise InputFileError(f"the line is longer than {LINE_LIMIT} bytes", where=where, expected="text")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line.decode(errors="replace") if replace else _decoded(line, f"{path}, row {number}")
        if number == 0:
            raise InputFileError("the file is empty", where=str(path))


def read_text(path: str | Path) -> str:
    """The whole of a UTF-8 file. Raises :class:`InputFileError`, as :func:`read_lines` does."""
    with _opened(path) as file:
        content = file.read(TEXT_LIMIT + 1)
    if not content:
        raise InputFileError("the file is empty", where=str(path))
    if len(content) > TEXT_LIMIT:
        raise InputFileError(f"the file is larger than {TEXT_LIMIT} bytes", where=str(path))
    return _decoded(content.removeprefix(b"\xef\xbb\xbf"), str(path))


def read_head(path: str | Path, size: int = 65_536) -> str:
    """The beginning of a file, to detect its format; bytes that are not UTF-8 become U+FFFD.

    Raises :class:`InputFileError`: missing, a folder, unreadable, empty, or not text from its first line.
    """
    with _opened(path) as file:
        content = file.read(size)
    if not content:
        raise InputFileError("the file is empty", where=str(path))
    if b"\0" in content.partition(b"\n")[0]:
        raise _no_text(content, str(path))
    return content.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")


def exists(path: str | Path) -> bool:
    """Whether there is anything at a path; False also for a text that cannot be a path."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def shown(value: object, limit: int = 40) -> str:
    """A value for a message: quoted, and cut if it is long.

    >>> shown("x" * 100, limit=5)
    "'xxxxx...'"
    """
    if isinstance(value, str):
        return repr(value if len(value) <= limit else value[:limit] + "...")
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    where = shown(str(path), 200) if "\0" in str(path) else str(path)[:200] or "''"
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        raise InputFileError("there is no such file", where=where) from None
    except IsADirectoryError:
        raise InputFileError("is a folder", where=where, expected="a file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputFileError(f"cannot be read ({reason})", where=where) from None


def _decoded(content: bytes, where: str) -> str:
    expected = "UTF-8 text"
    if b"\0" in content:
        raise _no_text(content, where)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        problem = f"byte {error.start + 1} (0x{byte:02x}) is not UTF-8"
        raise InputFileError(problem, where=where, expected=expected, hint="save it as UTF-8") from None


def _no_text(content: bytes, where: str) -> InputFileError:
    """The error about NUL bytes, with a hint on what such files often are."""
    hints = {b"\x1f\x8b": "it is compressed: gunzip it", b"\xff\xfe": "save it as UTF-8, not UTF-16"}
    hint = hints.get(content[:2], "")
    return InputFileError("the file holds NUL bytes: it is no text", where=where, expected="UTF-8 text", hint=hint)
