"""Recurrent layers with dropout run without cuDNN where a level is named on a GPU, and nothing else does."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from gavelx.training.determinism import Bits
from gavelx.training_report import Determinism

X = torch.ones(5, 2, 4)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A named level chooses kernels for the whole process."""
    monkeypatch.setattr(nn.RNNBase, "__call__", nn.RNNBase.__call__)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    deterministic, benchmark = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    enabled = torch.backends.cudnn.enabled
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled = benchmark, enabled


def on_a_gpu(level: Determinism | None) -> None:
    """A job of this level begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        Bits.of(level, None)


def watched(layer: nn.Module) -> list[bool]:
    """Whether cuDNN may be used, at each call of a layer."""
    seen: list[bool] = []
    layer.register_forward_pre_hook(lambda *_: seen.append(torch.backends.cudnn.enabled))
    return seen


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("layers", [2, pytest.param(1, marks=pytest.mark.filterwarnings("ignore:dropout option"))])
def test_layers_with_dropout_run_without_cudnn_where_a_level_is_named(kind: type[nn.RNNBase], layers: int) -> None:
    layer = kind(4, 4, layers, dropout=0.2)
    seen = watched(layer)
    layer(X)
    on_a_gpu(None), on_a_gpu("none")
    layer(X)
    on_a_gpu("fixed")
    layer(X)[0].sum().backward()
    layer.eval()(X)
    assert seen == [True, True, False, True]
    assert torch.backends.cudnn.enabled


def test_other_layers_keep_cudnn() -> None:
    on_a_gpu("fixed")
    layers: list[nn.Module] = [nn.Linear(4, 4), nn.LSTM(4, 4, 2, dropout=0.2), nn.LSTM(4, 4, 2), nn.Dropout(0.2)]
    seen = [watched(layer) for layer in layers]
    linear, drops, keeps, dropout = layers
    dropout(keeps(drops(linear(X))[0])[0])
    assert seen == [[True], [False], [True], [True]]


def test_a_layer_within_another_switches_cudnn_on_again_at_the_end_of_the_outer_one() -> None:
    class Twice(nn.LSTM):
        def __init__(self) -> None:
            super().__init__(4, 4, 2, dropout=0.2)
            self.inner = nn.GRU(4, 4, 2, dropout=0.2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            within = self.inner(x)[0]
            assert not torch.backends.cudnn.enabled
            return within  # type: ignore[no-any-return]

    on_a_gpu("elastic")
    Twice()(X)
    assert torch.backends.cudnn.enabled


@pytest.mark.parametrize("enabled", [True, False])
def test_the_switch_is_as_the_script_set_it_also_after_an_error(enabled: bool) -> None:
    on_a_gpu("fixed")
    torch.backends.cudnn.enabled = enabled
    layer = nn.LSTM(4, 4, 2, dropout=0.2)
    layer(X)
    assert torch.backends.cudnn.enabled == enabled
    with pytest.raises(RuntimeError):
        layer(torch.ones(5, 2, 3))
    assert torch.backends.cudnn.enabled == enabled


@pytest.mark.slow
def test_compiled_models_too() -> None:
    """torch leaves recurrent layers out of what it compiles."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 4, 2, dropout=0.2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * self.layer(x + 1)[0]  # type: ignore[no-any-return]

    on_a_gpu("fixed")
    model = Model()
    expected, seen = [], watched(model.layer)
    for one in (model, torch.compile(model, backend="eager")):
        torch.manual_seed(0)
        expected.append(one(X))
    assert torch.equal(*expected)
    assert seen == [False, False]
