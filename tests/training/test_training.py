"""A training that was interrupted anywhere ends as one that was not, bit for bit."""

import functools
import json
import math
import signal
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

from gavelx.errors import UserError
from gavelx.training import CheckpointError, Training, TrainingWarning
from gavelx.training.checkpoints import Checkpoints
from gavelx.training_report import TrainingReport
from tests.training.loops import CrashError, Outcome, Plan, train

LOADERS = ["shuffled", "generator", "replacement", "batches", "single", "streamed", "list"]
plans = st.builds(
    Plan,
    total_steps=st.integers(1, 24),
    batch_size=st.integers(1, 9),
    loader=st.sampled_from(LOADERS),
    by_epoch=st.booleans(),
    replay=st.booleans(),
)


@functools.cache
def uninterrupted(plan: Plan) -> Outcome:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(plan, Path(folder))
    assert outcome is not None
    return outcome


def pieces(plan: Plan, folder: Path, stop_at: list[int], crash_at: list[int], every_s: float = 300.0) -> Outcome:
    """Start it again until it is complete."""
    for _ in range(len(stop_at) + len(crash_at) + 1):
        try:
            if outcome := train(plan, folder, stop_at, crash_at[:1], every_s=every_s):
                return outcome
        except CrashError:
            crash_at = crash_at[1:]
    raise AssertionError("never complete")


def test_reports_say_how_training_goes(tmp_path: Path) -> None:
    """Epochs count parts, the first loss is that of the job, not of the launch; accuracy stays until the next."""
    report = tmp_path / "report.json"
    environment = {"GAVELX_REPORT_FILE": str(report), "GAVELX_JOB_DIR": str(tmp_path), "GAVELX_LEASE_ID": "1"}
    loader = DataLoader(torch.arange(10), batch_size=4)
    for total in (4, 8):
        with Training(model=nn.Linear(1, 1), total_steps=total, environment=environment) as training:
            for _ in training.batches(loader):
                accuracy = 0.5 if training.step == 2 else None
                training.done(loss=torch.tensor(8.0 - training.step), accuracy=accuracy)
        found = TrainingReport.of(json.loads(report.read_text()))
        assert found == TrainingReport(total / 3, 10, 8.0, 9.0 - total, 0.5)
    with Training(model=nn.Linear(1, 1), total_steps=9, environment=environment) as training:
        for _ in training.steps():
            training.done()
    assert TrainingReport.of(json.loads(report.read_text())) is None, "it has no epochs"


@pytest.mark.slow
@given(plan=plans, stop_at=st.lists(st.integers(1, 24), unique=True, max_size=6))
@settings(max_examples=80)
def test_preemption_anywhere_changes_no_bit(plan: Plan, stop_at: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert pieces(plan, Path(folder), stop_at, []) == uninterrupted(replace(plan, replay=False))


@pytest.mark.slow
@given(crash_at=st.lists(st.integers(1, 17), max_size=4), every_s=st.sampled_from([0.0, 1e-3, 300.0]))
@settings(max_examples=25)
def test_a_crash_anywhere_changes_no_bit(crash_at: list[int], every_s: float) -> None:
    """What was not saved is done again, to the same end."""
    with tempfile.TemporaryDirectory() as folder:
        assert pieces(Plan(), Path(folder), [], sorted(crash_at), every_s) == uninterrupted(Plan())


@pytest.mark.parametrize("loader", LOADERS)
def test_with_more_steps_a_complete_training_goes_on(tmp_path: Path, loader: str) -> None:
    plan = Plan(loader=loader)
    for total_steps in (1, 5, 9, plan.total_steps):
        outcome = train(replace(plan, total_steps=total_steps), tmp_path)
    assert outcome == uninterrupted(plan)


@pytest.mark.parametrize("stop_at", [[1], [2, 3], [4, 5, 9]])
def test_steps_of_several_batches(tmp_path: Path, stop_at: list[int]) -> None:
    plan = Plan(total_steps=12, batch_size=4, accumulate=3)
    assert pieces(plan, tmp_path, stop_at, []) == uninterrupted(plan)


def test_loader_processes(tmp_path: Path) -> None:
    plan = Plan(total_steps=9, workers=2, replay=True)
    assert pieces(plan, tmp_path, [3, 5], []) == uninterrupted(plan)


def test_loader_processes_that_persist(tmp_path: Path) -> None:
    """A restart begins others, for whose seed torch takes one more number from the generator that shuffles."""
    plan = Plan(total_steps=14, workers=2, persistent=True, drawn_by_dataset=False)  # epochs of five steps
    assert pieces(plan, tmp_path, [7, 10], []) == uninterrupted(plan)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.ASGD])
def test_optimizers_that_keep_other_dtypes_than_their_parameters(
    tmp_path: Path, kind: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer], dtype: torch.dtype
) -> None:
    """torch rounds what they keep to the dtype of the parameter when it is loaded."""
    states = []
    for stops in ([], [3]):
        folder = tmp_path / str(len(stops))
        for total in [*stops, 9]:
            torch.manual_seed(0)
            model = nn.Linear(4, 2, dtype=dtype)
            optimizer = kind(model.parameters())
            with Training(model=model, optimizer=optimizer, total_steps=total, folder=folder) as training:
                for _ in training.steps():
                    optimizer.zero_grad()
                    model(torch.randn(5, 4, dtype=dtype)).square().mean().backward()
                    optimizer.step()
                    training.done()
        states.append((model.state_dict(), optimizer.state_dict()["state"]))
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)


def test_what_follows_an_epoch_is_run_once_for_each(tmp_path: Path) -> None:
    plan = Plan(total_steps=15, by_epoch=True)  # epochs of five steps
    outcome = pieces(plan, tmp_path, [5, 7, 10], [])
    assert len(outcome.validated) == 3
    assert outcome == uninterrupted(plan)


def some_training(folder: Path, **options: object) -> Training:
    model = nn.Linear(1, 1)
    return Training(model=model, folder=folder, **options)  # type: ignore[arg-type]


def test_epochs_alone_say_when_training_is_complete(tmp_path: Path) -> None:
    seen = []
    with some_training(tmp_path) as training:
        for epoch in training.epochs(3):
            for batch in training.batches([1, 2]):
                seen.append((epoch, batch))
                training.done()
    assert seen == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert (training.complete, training.step, training.epoch) == (True, 6, 3)
    with some_training(tmp_path) as again:
        assert list(again.epochs(3)) == []


def test_steps_need_no_loader(tmp_path: Path) -> None:
    """Neither a generator of one's own nor the global one knows of the preemptions."""
    mine, common = torch.Generator().manual_seed(5), torch.Generator().manual_seed(6)
    expected = [(torch.rand((), generator=mine).item(), torch.rand((), generator=common).item()) for _ in range(6)]
    drawn: list[tuple[float, float]] = []
    for stop in (2, 4):
        with pytest.raises(SystemExit):
            draw(tmp_path, stop, drawn)
    draw(tmp_path, 99, drawn)
    assert drawn == expected


def draw(folder: Path, stop: int, drawn: list[tuple[float, float]]) -> None:
    generator = torch.Generator().manual_seed(5)
    torch.manual_seed(6)
    with Training(generator=generator, total_steps=6, folder=folder) as training:
        for step in training.steps():
            assert step == training.step == len(drawn)
            drawn.append((torch.rand((), generator=generator).item(), torch.rand(()).item()))
            training.done()
            if training.step == stop:
                signal.raise_signal(signal.SIGTERM)


def test_samplers_are_told_the_epoch(tmp_path: Path) -> None:
    sampler: DistributedSampler[int] = DistributedSampler(range(8), num_replicas=1, rank=0)  # type: ignore[arg-type]
    loader = DataLoader(range(8), batch_size=None, sampler=sampler)  # type: ignore[arg-type]
    seen = []
    with some_training(tmp_path, total_steps=16) as training:
        for one in training.batches(loader):
            seen.append(one)
            training.done()
    assert sorted(seen[:8]) == sorted(seen[8:]) == list(range(8))
    assert seen[:8] != seen[8:]


def test_leaving_by_break_is_complete(tmp_path: Path) -> None:
    with some_training(tmp_path, total_steps=100) as training:
        for _ in training.batches([1, 2, 3]):
            training.done()
            if training.step == 4:
                break
    assert training.complete
    assert training.saved_steps == 4


def test_a_loop_left_by_break_goes_on_where_it_was(tmp_path: Path) -> None:
    seen = []
    with some_training(tmp_path, total_steps=5) as training:
        for _ in range(2):
            for batch in training.batches([1, 2, 3]):
                seen.append(batch)
                training.done()
                if training.step == 2:
                    break
    assert seen == [1, 2, 3, 1, 2]


def test_what_was_submitted_counts_more_than_the_script(tmp_path: Path) -> None:
    with some_training(tmp_path, total_steps=2, environment={"GAVELX_TOTAL_STEPS": "3.0"}) as training:
        for _ in training.batches([1]):
            training.done()
    assert training.step == training.total_steps == 3


def test_a_relative_folder_lies_in_the_job_s_folder(tmp_path: Path) -> None:
    with some_training(Path("here"), total_steps=1, environment={"GAVELX_JOB_DIR": str(tmp_path)}) as training:
        for _ in training.steps():
            training.done()
    assert training.checkpoint is not None
    assert training.checkpoint.path.parent == tmp_path / "here"


def test_a_failing_step_saves_nothing_and_is_raised(tmp_path: Path) -> None:
    with pytest.raises(CrashError), some_training(tmp_path, total_steps=3) as training:
        for _ in training.steps():
            training.done()
            raise CrashError
    assert not training.complete
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_saved_twice(tmp_path: Path) -> None:
    for _ in range(3):
        with some_training(tmp_path, total_steps=1) as training:
            for _ in training.steps():
                training.done()
    assert len(list(tmp_path.iterdir())) == 1


class Odd(nn.Module):
    """Its state cannot be read again."""

    def get_extra_state(self) -> object:
        return Path("x")

    def set_extra_state(self, state: object) -> None: ...


def test_a_state_that_cannot_be_read_again_is_found_out_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match=r"_extra_state is a pathlib\..*Path; expected"),
        Training(model=Odd(), total_steps=1, folder=tmp_path) as training,
    ):
        for _ in training.steps():
            training.done()
    assert list(tmp_path.iterdir()) == []


class Best:
    """Keeps the best score, of any type."""

    def __init__(self) -> None:
        self.score: object = 0.0

    def state_dict(self) -> dict[str, object]:
        return {"scores": [1.0, self.score]}

    def load_state_dict(self, state: dict[str, list[object]]) -> None:
        self.score = state["scores"][1]


@pytest.mark.parametrize(
    ("score", "kind"),
    [
        (np.float64(0.5), "numpy.float64"),
        (np.ones(2), "numpy.ndarray"),
        ((i for i in "x"), "generator"),
        (defaultdict(list, a=[1]), "collections.defaultdict"),
    ],
)
def test_a_state_that_becomes_unreadable_later_leaves_the_checkpoints_before(
    tmp_path: Path, score: object, kind: str
) -> None:
    best = Best()
    with (
        pytest.raises(CheckpointError, match=rf"parts\.best\.scores\[1\] is a {kind}; expected tensors, numbers"),
        Training(best=best, total_steps=4, every_s=0, folder=tmp_path) as training,
    ):
        for step in training.steps():
            best.score = score if step == 2 else 0.25
            training.done()
    again = Best()
    with Training(best=again, total_steps=2, folder=tmp_path) as training:
        assert (training.step, again.score) == (2, 0.25)
    assert not list(tmp_path.glob(".*"))


def test_another_script_s_checkpoint_is_refused(tmp_path: Path) -> None:
    with some_training(tmp_path, total_steps=1) as training:
        for _ in training.steps():
            training.done()
    with pytest.raises(CheckpointError, match="holds model; this script saves net"):
        Training(net=nn.Linear(1, 1), folder=tmp_path).__enter__()


def test_checkpoints_of_format_1_are_read(tmp_path: Path) -> None:
    """They have neither the position in samples nor what elastic jobs save."""
    plan = Plan()
    train(plan, tmp_path, stop_at=[4])
    store = Checkpoints(tmp_path)
    found = store.newest()
    assert found is not None
    old = {"format", "step", "epoch", "batch", "parts", "chance", "made_with"}
    store.save({name: one for name, one in found[1].items() if name in old} | {"format": 1}, 4)
    assert train(plan, tmp_path) == uninterrupted(plan)


def test_other_threads_are_said_to_give_other_bits(tmp_path: Path) -> None:
    train(Plan(), tmp_path, stop_at=[2])
    torch.set_num_threads(2)
    with pytest.warns(TrainingWarning, match="threads 1 then, 2 now"):
        train(Plan(), tmp_path, stop_at=[3])


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda training: list(training.batches([1])), "a whole epoch went by"),
        (lambda training: list(training.steps()), "a whole step went by"),
        (lambda training: list(training.batches([])), "no batches"),
        (lambda training: list(training.batches(iter([1]))), "iterator"),
    ],
)
def test_misuse_is_explained(tmp_path: Path, misuse: object, message: str) -> None:
    with pytest.raises(UserError, match=message), some_training(tmp_path, total_steps=1) as training:
        misuse(training)  # type: ignore[operator]


def test_misuse_of_the_class_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Training\(model=...\): a int has no state_dict"):
        Training(model=3)
    with pytest.raises(UserError, match="no total number of steps is given"), some_training(tmp_path) as training:
        next(training.batches([1]))
    for loop in (Training.steps, lambda training: training.batches([1])):
        with pytest.raises(UserError, match=r"the loop is not in its block; expected with Training\(\.\.\.\)"):
            next(loop(some_training(tmp_path, total_steps=1)))
    for options, said in (
        ({"keep": 0}, r"keep=\.\.\.\): 0 cannot be used"),
        ({"keep": math.inf}, r"keep=\.\.\.\): inf cannot"),
        ({"keep": -1}, r"keep=\.\.\.\): -1 cannot"),
        ({"every_s": math.nan}, r"every_s=\.\.\.\): nan cannot"),
        ({"every_s": -1.0}, r"every_s=\.\.\.\): -1\.0 cannot"),
    ):
        with pytest.raises(UserError, match=said):
            some_training(tmp_path, **options)
    with pytest.raises(UserError, match="GAVELX_TOTAL_STEPS: 'many'; expected a number"):
        some_training(tmp_path, environment={"GAVELX_TOTAL_STEPS": "many"})


def test_what_is_saved_is_not_saved_again(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    with Training(model=model, folder=tmp_path, total_steps=3, every_s=0.0, environment={}) as training:
        for step in training.steps():
            before = training.checkpoint
            if step == 1:
                break
            training.done()
    assert before is not None and training.checkpoint is before
