"""python -m experiments.workloads.measure [--write]: how fast each workload is, and what its preemption costs.

Each is trained for a few steps, stopped, and started again; what is measured is the second run. ``--write`` puts
the table into README.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Workload:
    """A file of this folder, and what it stands for."""

    module: str
    family: str
    data: str


WORKLOADS = (
    Workload("image_classification", "ResNet-18, image classification", "gratings of ten kinds under noise"),
    Workload("language_model", "LSTM, language model", "a text by a Markov chain"),
    Workload("translation", "Transformer, translation", "sentences with words replaced and reversed"),
    Workload("recommendation", "autoencoder, recommendation", "users and films with hidden tastes"),
    Workload("cyclegan", "CycleGAN, image to image", "bright discs, dark squares"),
    Workload("reinforcement", "actor-critic, reinforcement learning", "none: carts with poles"),
)


@dataclass(frozen=True)
class Measured:
    steps_per_s: float
    checkpoint_kb: float
    checkpoint_s: float
    restart_s: float


def measure(workload: Workload, arguments: list[str], before: int, steps: int) -> Measured:
    """``before`` steps in one process, ``steps`` more in another, which is the one that is measured."""
    with tempfile.TemporaryDirectory() as folder:
        _run(workload, arguments, Path(folder), before)
        line_s = _run(workload, arguments, Path(folder), before + steps)
        report = json.loads((Path(folder) / "report.json").read_text())
    return Measured(
        (len(line_s) - 1) / (line_s[-1] - line_s[0]),
        report["checkpoint_bytes"] / 1e3,
        report["checkpoint_s"],
        report["restart_s"],
    )


def _run(workload: Workload, arguments: list[str], folder: Path, total_steps: int) -> list[float]:
    """Train up to that step; when each line of the loss curve came."""
    root = str(HERE.parents[1])
    environment = {
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
        "GAVELX_JOB_DIR": str(folder),
    }
    environment |= {"GAVELX_TOTAL_STEPS": str(total_steps), "GAVELX_REPORT_FILE": str(folder / "report.json")}
    command = [sys.executable, "-m", f"experiments.workloads.{workload.module}", "--print-every", "1", *arguments]
    with subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line_s = [time.monotonic() for line in process.stdout if line.startswith("step")]
    if process.returncode:
        raise SystemExit(f"{workload.module} ended with {process.returncode}")
    return line_s


def table(measured: dict[Workload, Measured]) -> str:
    """In Markdown."""
    titles = ("family", "file", "data (generated)", "steps/s", "checkpoint, kB", "to write it, s", "restart, s")
    rows = [
        (
            workload.family,
            f"`{workload.module}.py`",
            workload.data,
            f"{found.steps_per_s:.3g}",
            f"{found.checkpoint_kb:,.0f}",
            f"{found.checkpoint_s:.3f}",
            f"{found.restart_s:.1f}",
        )
        for workload, found in measured.items()
    ]
    lines = [titles, ["---"] * 3 + ["---:"] * 4, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def machine(arguments: list[str]) -> str:
    """What it was measured on."""
    import torch  # noqa: PLC0415

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} processor cores"
    size = " ".join(arguments) or "full size"
    return f"\n{device}, torch {torch.__version__}, Python {platform.python_version()}; `{size}`.\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[one.module for one in WORKLOADS], help="some of them")
    parser.add_argument("--full", action="store_true", help="the full size instead of --quick")
    parser.add_argument("--before", type=int, default=10, help="steps before the restart")
    parser.add_argument("--steps", type=int, default=100, help="steps after it, which are measured")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    args = parser.parse_args(argv)
    arguments = [] if args.full else ["--quick"]
    chosen = [one for one in WORKLOADS if args.only is None or one.module in args.only]
    text = table({one: measure(one, arguments, args.before, args.steps) for one in chosen}) + machine(arguments)
    print(text)
    if args.write:
        put_into_page(text, BEGIN, END)
    return 0


def put_into_page(text: str, begin: str, end: str) -> None:
    """Replace what stands between two marks in README.md."""
    page = HERE / "README.md"
    head, _, rest = page.read_text().partition(begin)
    page.write_text(head + begin + text + end + rest.partition(end)[2])


if __name__ == "__main__":
    raise SystemExit(main())
