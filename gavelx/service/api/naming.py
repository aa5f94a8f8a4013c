"""The type of a command, by its name.

Jobs of one type have the same speeds and about the same length, so jobs that run the same script are of one type:

1. a program is its file's name: ``./simulate --seed 1`` is ``simulate``;
2. what only runs another program is skipped: after ``python``, ``bash``, ``torchrun``, ``env`` ... the first word
   that names a script (``train.py``, ``run.sh``) is the name, else the module after ``-m``, else the first word
   that is no option, number or variable;
3. ``sh -c TEXT`` is named by the first script in its text, else by the first program that it runs.

Types are an owner's own: what one owner's ``train.py`` does says nothing of another's.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

LAUNCHERS = re.compile(
    r"(python|pypy|perl|ruby|node|julia|lua|Rscript|bash|dash|zsh|ksh|sh|fish)[\d.]*"
    r"|env|nice|ionice|nohup|time|timeout|stdbuf|setsid|exec|sudo|numactl|taskset|xvfb-run|catchsegv"
    r"|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun|uv|uvx|poetry|pipenv|conda|mamba|pixi|hatch"
    r"|launch|run"
)
MODULES = re.compile(r"torch\.distributed\.(run|launch)|accelerate\.commands\.launch|deepspeed\.launcher\..*")
SCRIPT = re.compile(r".+\.(py|sh|bash|pl|rb|js|jl|lua|R|r|ipynb)")
NUMBER = re.compile(r"[\d.,:]+[a-z]?")
PAUSE = r"[;&|()<>\s]+"
BEFORE = {"do", "then", "else", "if", "elif", "while", "until", "time", "exec", "!", "{"}
"""Words of a shell before a command."""
OF_THE_SHELL = {
    "for",
    "case",
    "done",
    "fi",
    "esac",
    "}",
    "cd",
    "set",
    "export",
    "source",
    ".",
    "ulimit",
    "trap",
    "true",
    ":",
}
RULE = "by the name of its command; --type NAME gives another"
LENGTH_MAX = 64


def type_of(command: Sequence[str]) -> str:
    """The job type of a command that is not empty; always letters, digits, dots, dashes and underscores."""
    name = _name(list(command)).replace("\\", "/").rstrip("/").rpartition("/")[2]
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")[:LENGTH_MAX]
    return safe or "command"


def _name(words: list[str]) -> str:
    if not LAUNCHERS.fullmatch(_file(words[0])):
        return words[0]
    for n, word in enumerate(words[1:], 1):
        if re.fullmatch(r"-[a-z]*c", word) and n + 1 < len(words):
            return _of_text(_file(words[n - 1] if n > 1 else words[0]), words[n + 1])
        if word == "-m" and n + 1 < len(words) and not MODULES.fullmatch(words[n + 1]):
            return words[n + 1]
        if SCRIPT.fullmatch(word) and not word.startswith("-"):
            return word
    plain = [word for word in words[1:] if not (word.startswith("-") or "=" in word or NUMBER.fullmatch(word))]
    return next((word for word in plain if not LAUNCHERS.fullmatch(_file(word))), words[0])


def _of_text(interpreter: str, text: str) -> str:
    """The name of a text that an interpreter is given; only a shell's begins with a command."""
    if not interpreter.rstrip("0123456789.").endswith("sh"):
        return interpreter
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    script = next((word for word in re.split(PAUSE, " ".join(words)) if SCRIPT.fullmatch(word)), None)
    return script or next(_commands(text), interpreter)


def _commands(text: str) -> Iterator[str]:
    """The programs that a shell's text runs, in their order, without words of the shell itself."""
    for command in re.split(r"[;&|()\n]+", re.sub(r"(?<!\S)#.*", "", text)):
        words = [word.strip("\"'") for word in command.split() if not re.match(r"\w+=", word)]
        while words and words[0] in BEFORE:
            words.pop(0)
        if words and words[0] not in OF_THE_SHELL:
            yield words[0]


def _file(path: str) -> str:
    return path.rpartition("/")[2]
