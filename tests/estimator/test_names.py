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
    ("ResNet-50 (batch size 64)", "resnet50", 64),
    ("resnet50-bs64", "resnet50", 64),
    ("bert_bs_16", "bert", 16),
    ("resnet50/bs=32", "resnet50", 32),
    ("resnet50:b32", "resnet50", 32),
    ("ResNet-50, BS 64", "resnet50", 64),
    ("llama-7b-lora-bs16", "llama7b-lora", 16),
    ("bs64-resnet50", "resnet50", 64),
    ("batch_size_64_vgg16", "vgg16", 64),
    ("resnet50_64bs", "resnet50", 64),
    ("resnet50 [batch: 64]", "resnet50", 64),
    ("gpt2 per-device batch size 4", "gpt2", 4),
    ("gpt2-micro_batch_4-fp16", "gpt2-fp16", 4),
    ("vit.b16", "vit", 16),
    ("resnet50@128", "resnet50", 128),
    ("t5_local-batch-size=8", "t5", 8),
    ("bert-base bsz 8 amp", "bert-base-amp", 8),
])  # fmt: skip
def test_the_batch_size_is_cut_out(job_type: str, model: str, size: int) -> None:
    assert read_name(job_type) == (model, size)


@pytest.mark.parametrize(("one", "other", "same"), [
    ("ResNet-50 (batch size 64)", "resnet_50-bs32", True),
    ("bert-base-b8", "bert_base (batch size 16)", True),
    ("model-1-12-b8", "model-11-2-b8", False),
    ("resnet50-b8", "resnet5-0-b8", False),
    ("gpt2-b8", "gpt-b8", False),
])  # fmt: skip
def test_a_model_is_the_same_in_other_spellings(one: str, other: str, same: bool) -> None:
    assert (read_name(one).model == read_name(other).model) == same


@pytest.mark.parametrize("job_type", ["ResNet-50", "A3C", "model-b", "db2", "LM (batch size 0)", "b16"])
def test_other_numbers_are_of_the_model(job_type: str) -> None:
    assert math.isnan(read_name(job_type).batch_size)
