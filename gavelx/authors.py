"""Errors in code that users wrote (a policy, a term): the message names their line.

:func:`blamed` runs a part of such code. An exception becomes a :class:`PolicyError` that names the part and the
last line outside of gavelx and its libraries. Warnings of numpy are kept for such a message instead of printed.
"""

import builtins
import inspect
import os
import re
import sysconfig
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any
from warnings import WarningMessage

from gavelx.errors import GavelxError, PolicyError, SharesError, UserError, did_you_mean

PACKAGE = f"{Path(__file__).parent}{os.sep}"
LIBRARIES = (sysconfig.get_paths()["stdlib"], *(f"{os.sep}{name}-packages{os.sep}" for name in ("site", "dist")))
TEXT_MAX = 300


def is_ours(thing: object) -> bool:
    """Whether the class of a thing, or a class itself, is one of this package."""
    kind = thing if isinstance(thing, type) else type(thing)
    return kind.__module__.partition(".")[0] == "gavelx"


@contextmanager
def blamed(where: str, call: str, method: Any = None) -> Iterator[list[WarningMessage]]:
    """Run an author's code, such as the ``call`` of the term ``where``; its exceptions become ``PolicyError``.

    Yields the list of warnings that it causes, for :func:`look_at_answer`. Where no line of the author's was
    reached, as the ``method`` takes other arguments, the message names the line of the method.
    """
    with _numpy_unprinted() as heard:
        try:
            yield heard
        except GavelxError:
            raise
        except SharesError as error:
            at = look_at(error)
            raise PolicyError(error.problem, where=where, expected=error.expected, hint=at) from error
        except (Exception, SystemExit) as error:
            problem = f"{call} failed with {in_short(error)}"
            raise PolicyError(problem, where=where, hint=look_at(error) or _look_at_head(method)) from error


def look_at_answer(method: Any, heard: Sequence[WarningMessage] = ()) -> str:
    """A hint for a wrong answer of a method: the author's first line with a numpy warning, or its head.

    An author's class that lacks the method has inherited ours.
    """
    for warning in heard:
        if not (warning.filename.startswith(PACKAGE) or _is_library(warning.filename)):
            return f"look at {warning.filename}, line {warning.lineno}: {warning.message}"
    code = _code(method)
    if code is not None and code.co_filename.startswith(PACKAGE):
        return f"give the class a method {code.co_name}() of its own"
    return _look_at_head(method)


def _look_at_head(method: Any) -> str:
    """``look at mine.py, line 5``, where the author's method begins; empty if it is none of theirs."""
    code = _code(method)
    known = code is not None and not code.co_filename.startswith(PACKAGE)
    return f"look at {code.co_filename}, line {code.co_firstlineno}" if known and code else ""


def _code(method: Any) -> CodeType | None:
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code if isinstance(code, CodeType) else None


def with_line(error: UserError) -> UserError:
    """The same error, with the author's line added to it."""
    where = ": ".join(filter(None, (line_of(error), error.where)))
    return type(error)(error.problem, where=where, expected=error.expected, hint=error.hint)


def look_at(error: BaseException) -> str:
    """``look at mine.py, line 7``: the author's last line in the traceback; empty if there is none."""
    place = line_of(error)
    return f"look at {place}" if place else ""


def line_of(error: BaseException) -> str:
    """The author's last line in the traceback, as ``mine.py, line 7``.

    It is the last line outside of gavelx, installed packages and the standard library. If all of the author's code
    is in an installed package, it is the last line of that package.
    """
    places = [
        (frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_a_file(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith(PACKAGE)
    ]
    theirs = [place for place in places if not _is_library(place[1])]
    package = places[0][0].partition(".")[0] if places else ""
    for _, file, line in reversed(theirs or [place for place in places if place[0].partition(".")[0] == package]):
        return f"{file}, line {line}"
    return ""


def in_short(error: BaseException) -> str:
    """An exception on one line, with a suggestion for an unknown name."""
    text, meant = " ".join(str(error).split())[:TEXT_MAX], _meant(error)
    return f"{type(error).__name__}{': ' * bool(text)}{text}{'; ' * bool(meant)}{meant}"


def _meant(error: BaseException) -> str:
    """``did you mean ...?`` for a name that an object, a file or a module does not have."""
    match error:
        case AttributeError(obj=thing) if _is_half_made(thing) and _is_raised_by_us(error):
            return "an __init__() of its own has to call super().__init__(...)"
        case AttributeError(name=str(name), obj=thing) if thing is not None:
            return _near(name, dir(thing), or_all=is_ours(thing))
        case NameError(name=str(name)) if error.__traceback__ is not None:
            frames = list(traceback.walk_tb(error.__traceback__))
            return _near(name, [*frames[-1][0].f_locals, *frames[-1][0].f_globals, *dir(builtins)])
        case TypeError() if re.search(r"'?Affine'? ", f"{error} "):
            return "an expression of the view takes scaled(factors), shifted(numbers) and plus(another)"
        case ImportError() if found := re.match(r"cannot import name '(\w+)' from '(gavelx[\w.]*)'", str(error)):
            return _near(found[1], dir(__import__(found[2], fromlist=["*"])))
    return ""


def _is_half_made(thing: object) -> bool:
    """Whether it may lack what our class, of which its own is a subclass, would have given it."""
    return not is_ours(thing) and any(map(is_ours, type(thing).__mro__))


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether it comes from a line of this package."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(files) and files[-1].startswith(PACKAGE)


def _near(name: str, known: Iterable[str], or_all: bool = False) -> str:
    """``did you mean ...?``; with ``or_all``, every known name if none is near."""
    text = did_you_mean(name, sorted({other for other in known if not other.startswith("_")}))
    return text if or_all or text.startswith("did you mean") else ""


@contextmanager
def _numpy_unprinted() -> Iterator[list[WarningMessage]]:
    """Collect warnings instead of printing them; print those that are not of numpy afterwards."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", RuntimeWarning)
        yield heard
    for other in (warning for warning in heard if not issubclass(warning.category, RuntimeWarning)):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


def _is_a_file(name: str) -> bool:
    return not name.startswith("<") or name.startswith(("<stdin", "<ipython"))


def _is_library(file: str) -> bool:
    return any(place in file for place in LIBRARIES)
