"""Exit codes, messages, and what help does not load."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gavelx import __version__
from gavelx.cli import commands
from tests.cli.running import Shell

HEAVY = {"numpy", "scipy", "matplotlib", "pandas", "highspy", "jinja2"}
COMMANDS = [
    ("policies",),
    ("simulate",),
    ("compare",),
    ("allocate",),
    ("trace", "generate"),
    ("trace", "import"),
    ("trace", "show"),
    ("throughputs", "show"),
    ("prices", "show"),
]
SMALL = ("--cluster", "v100=2,k80=2", "--jobs", 3)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from gavelx.cli import main\n"
        "try:\n    main(['compare', '--help'])\n"
        "except SystemExit:\n    print('loaded', *{name.partition('.')[0] for name in sys.modules})\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.rpartition("loaded")[2].split())
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_python_m_gavelx_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "gavelx", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"gavelx {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(shell: Shell, command: tuple[str, ...]) -> None:
    ran = shell(*command, "--help")
    assert ran.code == 0
    assert "Example:" in ran.out
    assert "--json" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "--policy", "fifoo", *SMALL), "did you mean 'fifo'"),
        (("compare", "--policies", "fifo,agnostic(fifo", *SMALL), "brackets"),
        (("simulate", "--policy", "fifo", "--cluster", "v100", "--jobs", 3), "--cluster"),
        (("simulate", "--policy", "fifo", "--cluster", "v100=2"), "neither --trace nor --jobs"),
        (("simulate", "--policy", "fifo", *SMALL, "--trace", "x.csv"), "both --trace and --jobs"),
        (("simulate", "--policy", "fifo", *SMALL, "--rules", "publish"), "did you mean 'published'?"),
        (("simulate", "--policy", "fifo", *SMALL, "--round", 0), "--round"),
        (("simulate", "--policy", "fifo", *SMALL, "--round", "nan"), "--round"),
        (("simulate", "--policy", "fifo", *SMALL, "--round", "1e-9"), "expected 1 to 1e+06 seconds"),
        (("simulate", "--policy", "fifo", *SMALL, "--round", "1e308"), "--round"),
        (("simulate", "--policy", "fifo", *SMALL, "--arrival-rate", "inf"), "--arrival-rate"),
        (("simulate", "--policy", "fifo", *SMALL, "--window", "2:9"), "--window"),
        (("simulate", "--policy", "fifo", *SMALL, "--table", "simulations"), "did you mean 'simulation'?"),
        (("simulate", "--policy", "fifo", *SMALL, "--prices", "k80=1"), "no price of v100"),
        (("simulate", "--policy", "fifo", *SMALL, "--json", "no/such/folder.json"), "no/such"),
        (("simulate", "--policy", "fifo", *SMALL, "--html", "-"), "--html"),
        (("simulate", "--policy", "fifo", "--cluster", "h100=2", "--jobs", 3, "--strict-speeds"), "'h100'"),
        (("simulate", "--policy", "fifo", "--cluster", "v100=2", "--trace", "no_such"), "no_such"),
        (
            ("simulate", "--policy", "fifo", "--cluster", "v100=2", "--trace", "gavel_debug", "--multi-gpu"),
            "--multi-gpu",
        ),
        (
            ("simulate", "--policy", "fifo", "--cluster", "v100=1", "--trace", "gavel_max_min_fairness"),
            "scale factor 4 fits nowhere",
        ),
        (("allocate", "--policy", "fifo", "--snapshot", "none.json"), "none.json"),
        (("throughputs", "show", "--job-type", "ResNet-5O"), "--job-type"),
        (("prices", "show", "--cloud", "awz"), "--cloud"),
        (("trace", "import", "none.trace"), "none.trace"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(shell: Shell, arguments: tuple[object, ...], words: str) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("gavelx: ")
    assert ran.err.count("\n") == 1
    assert words in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulat",),
        ("simulate", *SMALL),
        ("simulate", "--jobs", "x"),
        ("compare", "--workers", 0),
        ("trace", "generate", "--jobs", 9**20),
    ],
)
def test_a_wrong_option_is_exit_code_2(shell: Shell, arguments: tuple[object, ...]) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("simulate", *SMALL, "--jobs", "some"), "'--jobs': 'some'"),
        (("simulate", *SMALL, "--arrival-rate", "nan"), "'--arrival-rate': 'nan'"),
        (("compare", *SMALL, "--workers", "0"), "'--workers': '0'"),
        (("trace", "generate", "--jobs", "4", "--seed", "-7"), "'--seed': '-7'"),
        (("token", "tokens.json", "--owner", "ada", "--days", "0"), "'--days': '0'"),
    ],
)
def test_a_wrong_value_of_an_option_is_shown(shell: Shell, arguments: tuple[object, ...], seen: str) -> None:
    ran = shell(*arguments)
    assert ran.code == 2
    assert f"Invalid value for {seen}" in ran.err
    assert "Input" not in ran.err


def test_our_own_failure_is_exit_code_1(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "failing_policy.py"
    file.write_text(
        "from gavelx.errors import SolverError\n"
        "from gavelx.policies import Policy\n"
        "class Failing(Policy):\n"
        "    def allocate(self, snapshot):\n"
        "        raise SolverError('no certified answer')\n"
    )
    golden = Path(__file__).parents[1] / "data" / "golden_instances.json"
    ran = shell("allocate", "--policy", f"{file}:Failing", "--snapshot", golden, "--index", 0)
    assert ran.code == 1
    assert ran.err == "gavelx: no certified answer\n"


def test_a_mistake_of_ours_is_one_line_and_the_traceback_comes_when_asked_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("two\nlines")

    monkeypatch.setattr("gavelx.cli.running.run_policies", broken)
    ran = shell("simulate", "--policy", "fifo", *SMALL)
    assert (ran.code, ran.out) == (1, "")
    assert "a mistake of ours: AssertionError: two lines (test_main.py, line" in ran.err
    assert ran.err.count("\n") == 1
    monkeypatch.setenv("GAVELX_TRACEBACK", "1")
    with pytest.raises(AssertionError):
        shell("simulate", "--policy", "fifo", *SMALL)


def test_ctrl_c_is_quiet(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gavelx.cli.running.run_policies", interrupted)
    ran = shell("compare", "--policies", "fifo", *SMALL)
    assert ran.code in (1, 130)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ImportError("initialization failed")])
def test_ctrl_c_is_quiet_while_the_commands_are_imported(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def interrupted(*_: object) -> None:
        raise error from KeyboardInterrupt()

    monkeypatch.setattr("gavelx.cli._run", interrupted)
    try:
        assert shell("policies") == (130, "", "")
    except KeyboardInterrupt:  # which would end pytest
        pytest.fail("the interrupt was let through")


def test_a_stdout_that_takes_nothing_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gavelx.cli.listing.print_json", full)
    ran = shell("policies", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "gavelx: [Errno 28] No space left on device\n"


def test_the_default_policies_are_there(shell: Shell) -> None:
    from gavelx.policies import load_policy, split_policies

    for text in split_policies(commands.DEFAULT_POLICIES):
        assert str(load_policy(text)) == text


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--policy", "fifo", *SMALL, "--prices", ""),
        ("trace", "show", ""),
        ("trace", "import", "gavel_debug", "--table-out", ""),
        ("prices", "check", ""),
        ("prices", "refresh", "csv", "newer.csv", "--table", ""),
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_an_empty_name_is_no_default(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    """It is a shell's variable that was never set, and the user means another file than ours."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "newer.csv").write_text("cloud,accelerator,price_usd_per_hour\naws,v100,3\n")
    ran = shell(*words)
    assert ran.code == 2 and ("is a folder" in ran.err or "without a name" in ran.err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("throughputs", "show", "--scheduler", "127.0.0.1:1", "--table", "physical"),
            "--table: it is of a table",
        ),
        (
            ("throughputs", "show", "--scheduler", "127.0.0.1:1", "--scale-factor", 2),
            "--scale-factor: it is of a table",
        ),
        (
            ("throughputs", "show", "--scale-factor", 99),
            "--scale-factor: no row has 99; expected one of 1, 2, 4, 8",
        ),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(shell: Shell, words: tuple[object, ...], said: str) -> None:
    ran = shell(*words)
    assert ran.code == 2 and said in ran.err


@pytest.mark.slow
def test_a_plot_is_made_in_silence_where_home_cannot_be_written(tmp_path: Path) -> None:
    """Matplotlib gave advice on its cache."""
    (tmp_path / "file").touch()
    command = [
        sys.executable,
        "-m",
        "gavelx",
        "simulate",
        "--policy",
        "fifo",
        *map(str, SMALL),
        "--prices",
        "v100=2,k80=1",
        "--png",
        "plot.png",
    ]
    places = {"HOME": str(tmp_path / "file"), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": ""}
    ran = subprocess.run(
        command, cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, check=True
    )
    assert ran.stderr == "" and (tmp_path / "plot.png").exists()
