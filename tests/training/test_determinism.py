"""What is promised, and what happens when it cannot be kept."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gavelx.errors import UserError
from gavelx.training import CheckpointError, Gang, Training, TrainingWarning, ordered
from gavelx.training.determinism import PORTABLE, Bits, level_of
from gavelx.training.sums import Ordered


@pytest.mark.parametrize(
    ("level", "changes", "message"),
    [
        ("exact", "workers", "'exact' is not known; expected one of none, fixed, elastic, heterogeneous"),
        ("fixed", "batch", "'fixed' in a job whose batch size changes; expected 'none'"),
        ("heterogeneous", "workers", "expected 'elastic'. Try: ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE"),
    ],
)
def test_a_level_that_cannot_be_kept_is_refused(level: str, changes: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        level_of(level, changes)  # type: ignore[arg-type]


def test_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [level_of(None, changes) for changes in ("workers", "batch", "")] == ["elastic", "none", "none"]
    for name, value in PORTABLE.items():
        monkeypatch.setenv(name, value)
    assert level_of("heterogeneous", "workers") == "heterogeneous"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="'heterogeneous' on a GPU"):
        level_of("heterogeneous", "workers")


def test_another_number_of_processes_is_no_news_where_the_batch_changes_with_it() -> None:
    rigid, changes, fixed = (
        Bits("none", named=False),
        Bits("none", named=False, of_any_size=True),
        Bits("fixed", True),
    )
    assert [bits.made_with(2)["processes"] for bits in (rigid, fixed)] == [2, 2]
    assert "processes" not in changes.made_with(2)


def train(folder: Path, steps: int, *, gang: Gang | None = None, **options: object) -> dict[str, object]:
    """A small job; its last report."""
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 1)
    model = gang.parallel(module) if gang else module
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(data), batch_size=2, shuffle=True)
    with Training(
        gang=gang,
        model=model,
        optimizer=optimizer,
        total_steps=steps,
        environment={"GAVELX_JOB_DIR": str(folder), "GAVELX_REPORT_FILE": str(folder / "report.json")},
        **options,  # type: ignore[arg-type]
    ) as training:
        for (inputs,) in training.batches(loader):
            if training.backward(model(inputs).square().mean()):
                optimizer.step()
                optimizer.zero_grad()
                training.done()
    found: dict[str, object] = json.loads((folder / "report.json").read_text())
    return found


def test_another_number_of_threads_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert train(tmp_path, 2, determinism="fixed")["determinism"] == "fixed"
    torch.set_num_threads(2)
    with pytest.raises(
        CheckpointError, match=r"threads 1 then, 2 now. Needed: torch.set_num_threads\(1\) at the top"
    ):
        train(tmp_path, 3, determinism="fixed")
    torch.set_num_threads(1)
    assert train(tmp_path, 3, determinism="fixed")["steps_done"] == 3


@pytest.fixture
def gang(monkeypatch: pytest.MonkeyPatch) -> Gang:
    """One process that computes three logical workers."""
    size = {"generation": 0, "world_size": 1, "rank_of_slot": {"0": 0}, "master": "127.0.0.1", "port": 1}
    monkeypatch.setenv("GAVELX_ELASTIC", json.dumps({"what": "workers", "slot": 0, "parts": 3, "size": size}))
    return Gang(device="cpu")


def test_without_a_named_level_a_lost_promise_is_said_and_remembered(
    tmp_path: Path, gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path, 2, gang=gang)["determinism"] == "elastic"
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX9")
        with pytest.warns(TrainingWarning, match="not the same bits as before: cpu .* then, AVX9 now"):
            assert train(tmp_path, 3, gang=Gang(device="cpu"))["determinism"] == "none"
    with pytest.warns(TrainingWarning, match="AVX9 then"):
        assert train(tmp_path, 4, gang=Gang(device="cpu"))["determinism"] == "none"
    assert train(tmp_path, 5, gang=Gang(device="cpu"))["determinism"] == "none"


def test_a_torch_that_adds_otherwise_gets_our_own_order(
    tmp_path: Path, gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "SEGMENT_BYTES", 1 << 19)
    report = train(tmp_path, 2, gang=gang)
    assert (report["determinism"], report["order"]) == ("elastic", "rank")


def test_the_order_of_a_job_stays(tmp_path: Path, gang: Gang) -> None:
    assert train(tmp_path, 2, gang=gang, order="tree")["order"] == "tree"
    assert train(tmp_path, 3, gang=Gang(device="cpu"), order=None)["order"] == "tree"


def test_a_parameter_without_a_gradient_is_named(tmp_path: Path, gang: Gang) -> None:
    model = gang.parallel(torch.nn.ModuleDict({"used": torch.nn.Linear(1, 1), "not": torch.nn.Linear(1, 1)}))
    loader = DataLoader(TensorDataset(torch.ones(6, 1)), batch_size=2)
    with (
        pytest.raises(UserError, match=r"not\.weight, not\.bias got no gradient"),
        Training(gang=gang, model=model, total_steps=1, folder=tmp_path) as training,
    ):
        for (inputs,) in training.batches(loader):
            training.backward(model.module["used"](inputs).sum())  # type: ignore[union-attr,operator]


def test_an_epoch_that_is_shorter_than_a_step_is_named(tmp_path: Path, gang: Gang) -> None:
    model = gang.parallel(torch.nn.Linear(1, 1))
    loader = DataLoader(TensorDataset(torch.ones(3, 1)), batch_size=2, drop_last=True)
    with (
        pytest.raises(UserError, match=r"no batches.*drop_last=False, as a step takes 6 of 3 samples"),
        Training(gang=gang, model=model, total_steps=2, folder=tmp_path) as training,
    ):
        next(training.batches(loader))


@pytest.mark.parametrize(("first", "then"), [(False, "is trained now, and was not"), (True, "was trained")])
def test_parameters_that_are_trained_later_or_no_longer_are_refused(
    tmp_path: Path, gang: Gang, first: bool, then: str
) -> None:
    """Their gradients would be those of this process alone."""
    net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    net[0].requires_grad_(first)
    model = gang.parallel(net)
    loader = DataLoader(TensorDataset(torch.ones(6, 1)), batch_size=2)
    with (
        pytest.raises(UserError, match=rf"0\.weight {then} when training began"),
        Training(gang=gang, model=model, total_steps=2, folder=tmp_path) as training,
    ):
        for (inputs,) in training.batches(loader):
            if training.backward(model(inputs).sum()):
                net[0].requires_grad_(not first)
                training.done()


def test_a_model_that_the_gang_does_not_know_is_refused(gang: Gang) -> None:
    with pytest.raises(UserError, match=r"no model was given to the gang; expected model = gang\.parallel"):
        Training(gang=gang, model=torch.nn.Linear(1, 1), total_steps=1)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_order_on_a_gpu_is_the_same_whatever_processes_a_job_begins_with(
    gang: Gang, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Alone it could exchange over NCCL; two processes on one GPU cannot."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    gang.parallel(torch.nn.Linear(1, 1))
    gang.device, gang.world_size = torch.device("cuda", 0), processes
    assert gang.backend == ("nccl" if processes == 1 else "gloo")
    sums = Ordered(gang, 3)
    assert sums._chosen() == "rank"
