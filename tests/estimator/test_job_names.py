"""Names of today's jobs."""

import random
import string

import pytest

from gavelx.errors import UserError
from gavelx.estimator.job_names import FAMILIES, JobNameError, near_name, read_job

GOOD = {
    "llama-7b-lora-bs16": ("llm", "lora", 7e9, 16, 2048),
    "LLaMA_7B_LoRA_bs16": ("llm", "lora", 7e9, 16, 2048),
    "gpt-1.3b-pretrain-seq1024-bs8": ("llm", "pretrain", 1.3e9, 8, 1024),
    "llama-3.1-8b-full-seq8192-bs8-fp8": ("llm", "full", 8e9, 8, 8192),
    "llama2-70b-qlora-bs4": ("llm", "qlora", 70e9, 4, 2048),
    "bert-large-pretrain-seq128-bs64-amp-tf1": ("llm", "pretrain", 336e6, 64, 128),
    "vit-l16-bs64": ("vit", "pretrain", 304e6, 64, 224),
    "sd1.5-lora-bs4": ("diffusion", "lora", 0.86e9, 4, 512),
    "dit-xl2-bs256": ("diffusion", "full", 0.675e9, 256, 256),
    "dlrm-bs65536": ("recommendation", "full", 4.2e9, 65536, 1),
    "whisper-large-sec10-bs32": ("speech", "full", 1550e6, 32, 10),
}
BAD = {
    "llama-7b-lora": "does not say the batch size",
    "llama-7b-lora-bs0": "bs0 cannot be",
    "llama-7b-lora-bs-1": "'bs' is not understood",
    "llama-7b-lora-bs99999999999999999999": "cannot be",
    "llama-7b-lora-seq0-bs1": "seq0 cannot be",
    "llama-7b-lora-seq-bs1": "'seq' is not understood; .*|'seq' is not understood",
    "llama-7b-lora-bs1-bs2": "bs is said twice",
    "llama-7b-lorra-bs16": "did you mean 'lora'",
    "llama-7b-bs16": "does not say how the model is trained",
    "llama-lora-bs16": "how many parameters",
    "llama-0b-lora-bs16": "0b parameters; expected 1m to 2t",
    "llama-99999b-lora-bs16": "99999b parameters",
    "vit-bs16": "which model",
    "vit-q16-bs16": "which model",
    "vit-b16-seq128-bs16": "seq128 does not belong",
    "dlrm-seq128-bs16": "seq128 does not belong",
    "sd9-bs4": "which model",
    "whisper-huge-bs4": "'huge' is no size",
    "bert-medium-pretrain-bs8": "'medium' is no size",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_name_is_read(name: str) -> None:
    job = read_job(name)
    assert job is not None
    assert (job.kind, job.method, job.parameters, job.batch, job.length) == GOOD[name]


@pytest.mark.parametrize("name", BAD)
def test_a_part_that_is_wrong_is_named(name: str) -> None:
    with pytest.raises(JobNameError, match=BAD[name]) as said:
        read_job(name)
    assert name[:40] in str(said.value)


@pytest.mark.parametrize("name", ["A3C", "ResNet-50 (batch size 32)", "", "-", "7b", "mine", "x" * 5000])
def test_other_names_are_left_alone(name: str) -> None:
    assert read_job(name) is None


def test_a_family_with_a_typing_mistake_is_suggested() -> None:
    assert near_name("lama-7b-lora-bs16") == "did you mean llama-7b-lora-bs16?"
    assert near_name("resnet-50") == ""


def test_a_thousand_odd_names_are_read_or_refused_with_a_reason() -> None:
    draw = random.Random(0)
    words = [
        *FAMILIES,
        *[
            "7b",
            "1.3b",
            "lora",
            "full",
            "bs8",
            "seq128",
            "seq",
            "bs",
            "res224",
            "--",
            "(",
            ")",
            "fp8",
            "0b",
            "1e9b",
            "bs1e9",
            "١b",
            "\x00",
        ],
    ]
    for _ in range(1000):
        name = "-".join(draw.choices(words, k=draw.randint(1, 6))) + draw.choice(["", *string.punctuation])
        try:
            read_job(name)
        except UserError as error:
            assert "job type" in str(error)
