"""Types of commands by their names."""

import random
import re
import shlex

import pytest

from gavelx.rpc.convert import JOB_TYPE
from gavelx.service.api.naming import type_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("./train.sh --lr 3", "train.sh"),
        ("/opt/bin/simulate 7", "simulate"),
        ("python train.py --lr 3", "train.py"),
        ("/usr/bin/python3.11 -u /a/b/train.py data/", "train.py"),
        ("python -m pkg.train x", "pkg.train"),
        ("python -m torch.distributed.run --nproc_per_node 4 train.py", "train.py"),
        ("torchrun --rdzv_backend c10d --nproc_per_node 4 train.py", "train.py"),
        ("accelerate launch --config_file a.yaml train.py", "train.py"),
        ("uv run train.py", "train.py"),
        ("env A=1 nice -n 10 ./prog x", "prog"),
        ("timeout 5s ./prog", "prog"),
        ("sh -c 'echo hi there'", "echo"),
        ("bash -lc 'cd x && python train.py | tee log'", "train.py"),
        ("bash -c 'FOO=1 ./x'", "x"),
        ("sh -c 'for i in 1 2; do echo $i; sleep 1; done'", "echo"),
        ("sh -c 'cd /data && ./simulate --seed 1'", "simulate"),
        ("sh -c '# first\nif true; then ./y; fi'", "y"),
        ("sh -c 'set -e; export A=1; while true; do ./z; done'", "z"),
        ("sh -c 'cd x'", "sh"),
        ("sh -c 'an \"open quote'", "an"),
        ("python -c 'print(1)'", "python"),
        ("python", "python"),
        ("../../", "command"),
        ("-x", "x"),
        ("'a name with blanks'", "a_name_with_blanks"),
        ("'<img src=x>'", "img_src_x_"),
    ],
)
def test_a_type_is_the_name_of_what_runs(command: str, name: str) -> None:
    assert type_of(shlex.split(command)) == name


@pytest.mark.parametrize("seed", range(200))
def test_any_command_has_a_type(seed: int) -> None:
    chance = random.Random(seed)
    words = (
        "python",
        "-m",
        "-c",
        "sh",
        "",
        "-",
        "--",
        "/",
        "é",
        "\x1b[1m",
        "a" * 500,
        "x=1",
        "env",
        "1e9",
        "../",
        ".py",
    )
    command = [
        chance.choice([*words, "".join(chr(chance.randrange(1, 0x3000)) for _ in range(9))]) for _ in range(5)
    ]
    name = type_of(["program", *command] if not command[0] else command)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name), (command, name)
    assert JOB_TYPE.fullmatch(name)
