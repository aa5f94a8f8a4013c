import math

import pytest

from gavelx.estimator.names import read_name


@pytest.mark.parametrize(("job_type", "model", "size"), [
    ("LM (batch size 20)", "lm", 20),
    ("resnet50_bs128", "resnet50", 128),
    ("bert-b32", "bert", 32),
    ("resnet18 batch=64", "resnet18", 64),
    ("VGG16 (32)", "vgg16", 32),
    ("GPT2_batch_size_4", "gpt2", 4),
    ("yolov3, batch 8", "yolov3", 8),
])  # fmt: skip
def test_the_batch_size_is_cut_out(job_type: str, model: str, size: int) -> None:
    assert read_name(job_type) == (model, size)


@pytest.mark.parametrize("job_type", ["ResNet-50", "A3C", "model-b", "db2", "LM (batch size 0)", "b16"])
def test_other_numbers_are_of_the_model(job_type: str) -> None:
    assert math.isnan(read_name(job_type).batch_size)
