"""Today's jobs by their names: ``llama-7b-lora-seq2048-bs16`` is a model, a way to train it, and a batch.

    LLM              FAMILY-SIZE-METHOD[-seqN]-bsN       gpt-1.3b-pretrain-seq2048-bs8, qwen2.5-7b-lora-bs16
    encoder          bert-base|large-METHOD[-seqN]-bsN   bert-large-pretrain-seq128-bs64
    vision           vit-ti|s|b|l|h|g + PATCH[-resN]-bsN vit-l16-bs64
    diffusion        sd1.5|sd2|sdxl|dit-xl2|flux[-lora][-resN]-bsN
    recommendation   dlrm-bsN
    speech           whisper-tiny|...|large[-secN]-bsN, wav2vec2-base|large[-secN]-bsN

SIZE is the number of parameters (``350m``, ``7b``, ``1.3b``); METHOD is ``pretrain``, ``full``, ``lora`` or
``qlora``. ``bsN`` is the samples of one optimizer step of the whole job, on however many devices; ``seqN`` the
tokens of a sample (2048; 512 for bert), ``resN`` the pixels of a side (224, 512 (sd), 1024 (sdxl, flux)
or 256 (dit)), ``secN`` its seconds (30 and 15). The precision may follow (``-bf16``, ``-fp16``, ``-amp``,
``-tf32``, ``-fp32``, ``-fp8`` or ``-fp4``; ``mxfp8``, ``nvfp4`` and ``mxfp4`` are formats of these), and the
framework (``-torch``, ``-tf1``, ``-tf2``, ``-jax``). Case, and ``_`` or blanks for ``-``, do not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from gavelx.errors import UserError, did_you_mean

FAMILIES = (
    *("llama", "gpt", "mpt", "mistral", "qwen", "opt", "gemma", "falcon", "bloom", "pythia", "phi", "olmo"),
    *("yi", "baichuan", "chatglm", "glm", "deepseek", "neox", "llm", "bert", "vit", "sd", "sdxl", "dit", "flux"),
    *("dlrm", "whisper", "wav2vec2"),
)
METHODS = {"pretrain": "pretrain", "pretraining": "pretrain", "full": "full", "sft": "full", "lora": "lora"}
METHODS |= {"qlora": "qlora", "finetune": "full", "ft": "full"}
PRECISIONS = ("bf16", "fp16", "amp", "tf32", "fp32", "fp8", "fp4", "nvfp4", "mxfp4", "mxfp8")
SAME_PRECISION = {"nvfp4": "fp4", "mxfp4": "fp4", "mxfp8": "fp8"}
FRAMEWORKS = ("torch", "tf1", "tf2", "jax")
BERT_SIZES = {"base": 110e6, "large": 336e6}
WHISPER_SIZES = {"tiny": 39e6, "base": 74e6, "small": 244e6, "medium": 769e6, "large": 1550e6}
WAV2VEC_SIZES = {"base": 95e6, "large": 317e6}
VIT_SIZES = {"ti": (5.7e6, 12, 192), "s": (22e6, 12, 384), "b": (86.6e6, 12, 768), "l": (304e6, 24, 1024)}
VIT_SIZES |= {"h": (632e6, 32, 1280), "g": (1010e6, 40, 1408)}
DIFFUSION = ("sd1.5", "sd2", "sdxl", "dit-xl2", "flux")
PARAMETERS = (1e6, 2e12)
LENGTHS = {"seq": (1, 4_194_304), "res": (16, 8192), "sec": (1, 3600), "bs": (1, 100_000_000)}
NUMBERED = re.compile(r"(seq|res|sec|bs|batch)(\d+)")
SIZE = re.compile(r"(\d+(?:\.\d+)?)(k|m|b|t)")


Shape = tuple[float, int, float, float]
"""Parameters, length of a sample, hidden size and number of layers."""


class JobNameError(UserError):
    """A name that begins as one of today's jobs and cannot be read; it says which part."""


@dataclass(frozen=True)
class NamedJob:
    """A parsed name; jobs of one ``model`` do the same for a token or pixel; ``length`` is seq, res or sec.

    ``width`` and ``depth`` are the hidden size and the number of layers.
    """

    kind: str
    model: str
    method: str
    parameters: float
    batch: int
    length: int
    width: float
    depth: float
    precision: str = "bf16"


@lru_cache(maxsize=10_000)
def read_job(name: str) -> NamedJob | None:
    """The job of a name; None if the name does not begin with a family of today's jobs.

    Raises :class:`JobNameError` for one that does, and has a part that cannot be read or lacks one.

    >>> read_job("llama-7b-lora-bs16").parameters
    7000000000.0
    """
    words = [word for word in re.split(r"[-_\s/]+", name.strip().lower()) if word]
    if not words or len(name) > 200:
        return None
    family = re.match(r"[a-z]+(?:2vec2)?", words[0])
    if family is None or family[0] not in FAMILIES:
        return None
    return _Reader(name, words).job(family[0])


def near_name(name: str) -> str:
    """What to try for a name whose first word is nearly that of a family, else an empty text.

    >>> near_name("lama-7b-lora-bs16")
    'did you mean llama-7b-lora-bs16?'
    """
    first, dash, rest = name.strip().lower().partition("-")
    near = get_close_matches(re.sub(r"\d+$", "", first[:40]), FAMILIES, n=1, cutoff=0.75)
    return f"did you mean {f'{near[0]}{dash}{rest}':.80}?" if near and dash else ""


class _Reader:
    """One name, read word by word."""

    def __init__(self, name: str, words: list[str]) -> None:
        self.name, self.words = name, words
        self.numbers: dict[str, int] = {}
        self.precision = "bf16"

    def job(self, family: str) -> NamedJob:
        readers = {
            "bert": self._bert,
            "vit": self._vit,
            "dlrm": self._dlrm,
            "whisper": self._whisper,
            "wav2vec2": self._wav2vec2,
        } | dict.fromkeys(("sd", "sdxl", "dit", "flux"), self._diffusion)
        return readers.get(family, self._llm)()

    def mistake(self, problem: str, expected: str = "", hint: str = "") -> JobNameError:
        return JobNameError(problem, where=f"job type {self.name!r:.80}", expected=expected, hint=hint)

    # -- kinds ------------------------------------------------------------------------------------------------

    def _llm(self) -> NamedJob:
        family, rest = self.words[0], self.words[1:]
        size = next((word for word in rest if SIZE.fullmatch(word)), None)
        if size is None:
            hint = f"{family}-7b-lora-bs16"
            raise self.mistake("it does not say how many parameters", "such as 350m, 7b or 1.3b", hint)
        found = SIZE.fullmatch(size)
        assert found is not None
        parameters = float(found[1]) * {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[found[2]]
        low, high = PARAMETERS
        if not low <= parameters <= high:
            raise self.mistake(f"{size} parameters", "1m to 2t of them")
        rest.remove(size)
        versions = [word for word in rest if re.fullmatch(r"v?\d+(\.\d+)?", word)]  # llama-3.1-8b
        method = self._rest([word for word in rest if word not in versions], "seq", needs_method=True)
        width = (128.0 * parameters / 12.0) ** (1 / 3)
        length = self._number("seq", 2048)
        return self._named("llm", f"llm-{size}", method, (parameters, length, width, width / 128.0))

    def _bert(self) -> NamedJob:
        size = self._one_of(self.words[1:2], BERT_SIZES, "bert-large-pretrain-seq128-bs64")
        method = self._rest(self.words[2:], "seq", needs_method=True)
        width, depth = {"base": (768, 12), "large": (1024, 24)}[size]
        shape = (BERT_SIZES[size], self._number("seq", 512), width, depth)
        return self._named("llm", f"bert-{size}", method, shape)

    def _vit(self) -> NamedJob:
        found = re.fullmatch(r"(ti|s|b|l|h|g)(8|14|16|32)", self.words[1] if len(self.words) > 1 else "")
        if found is None:
            hint = "vit-b16-bs64"
            raise self.mistake(
                "it does not say which model", "ti, s, b, l, h or g with a patch of 8, 14, 16 or 32", hint
            )
        self._rest(self.words[2:], "res", needs_method=False)
        parameters, depth, width = VIT_SIZES[found[1]]
        pixels = self._number("res", 224)
        return self._named("vit", f"vit-{found[0]}", "pretrain", (parameters, pixels, width, depth))

    def _diffusion(self) -> NamedJob:
        joined = "-".join(self.words)
        model = next((m for m in sorted(DIFFUSION, key=len, reverse=True) if joined.startswith(m)), None)
        model = model or ("sd1.5" if self.words[0] in {"sd15", "sd1"} else None)
        if model is None:
            raise self.mistake("it does not say which model", "one of " + ", ".join(DIFFUSION), "sdxl-bs8")
        rest = self.words[len(model.split("-")) :]
        method = self._rest(rest, "res", needs_method=False)
        pixels = self._number("res", {"sd1.5": 512, "sd2": 512, "sdxl": 1024, "dit-xl2": 256, "flux": 1024}[model])
        parameters = {"sd1.5": 0.86e9, "sd2": 0.87e9, "sdxl": 2.57e9, "dit-xl2": 0.675e9, "flux": 12e9}[model]
        width, depth = {"flux": (3072, 57), "dit-xl2": (1152, 28)}.get(model, (1280, 25))
        return self._named("diffusion", model, method or "full", (parameters, pixels, width, depth))

    def _dlrm(self) -> NamedJob:
        self._rest(self.words[1:], "", needs_method=False)
        return self._named("recommendation", "dlrm", "full", (4.2e9, 1, 512, 8))

    def _whisper(self) -> NamedJob:
        return self._speech("whisper", WHISPER_SIZES, 30)

    def _wav2vec2(self) -> NamedJob:
        return self._speech("wav2vec2", WAV2VEC_SIZES, 15)

    def _speech(self, model: str, sizes: Mapping[str, float], seconds: int) -> NamedJob:
        size = self._one_of(self.words[1:2], sizes, f"{model}-base-bs16")
        method = self._rest(self.words[2:], "sec", needs_method=False)
        width = (128.0 * sizes[size] / 12.0) ** (1 / 3)
        length = self._number("sec", seconds)
        return self._named(
            "speech", f"{model}-{size}", method or "full", (sizes[size], length, width, width / 64.0)
        )

    # -- parts ------------------------------------------------------------------------------------------------

    def _named(self, kind: str, model: str, method: str, shape: Shape) -> NamedJob:
        if "bs" not in self.numbers:
            raise self.mistake("it does not say the batch size", "the samples of a step", f"{self.name[:60]}-bs16")
        batch = self.numbers["bs"]
        parameters, length, width, depth = shape
        return NamedJob(kind, model, method, parameters, batch, length, width, depth, self.precision)

    def _rest(self, words: list[str], length: str, *, needs_method: bool) -> str:
        """Read numbers, method and precision; returns the method, empty if there is none."""
        method = ""
        known = (*METHODS, *PRECISIONS, *FRAMEWORKS, "bs16", *([f"{length}2048"] if length else []))
        for word in words:
            if word in METHODS and not method:
                method = METHODS[word]
            elif word in PRECISIONS:
                self.precision = SAME_PRECISION.get(word, word)
            elif found := NUMBERED.fullmatch(word):
                self._set("bs" if found[1] == "batch" else found[1], int(found[2][:12]), length)
            elif word not in FRAMEWORKS:
                raise self.mistake(f"{word!r:.40} is not understood", hint=did_you_mean(word[:40], known))
        if needs_method and not method:
            hint = "lora, if it fine-tunes an adapter"
            raise self.mistake("it does not say how the model is trained", "pretrain, full, lora or qlora", hint)
        return method

    def _set(self, key: str, value: int, length: str) -> None:
        if key not in {"bs", length}:
            raise self.mistake(
                f"{key}{value} does not belong to this model", expected=f"{length}N" if length else "bsN"
            )
        if key in self.numbers:
            raise self.mistake(f"{key} is said twice")
        low, high = LENGTHS[key]
        if not low <= value <= high:
            raise self.mistake(f"{key}{value} cannot be", f"{key}{low} to {key}{high}")
        self.numbers[key] = value

    def _number(self, key: str, default: int) -> int:
        return self.numbers.get(key, default)

    def _one_of(self, words: list[str], known: Mapping[str, float], example: str) -> str:
        if not words or words[0] not in known:
            seen = f"{words[0]!r:.40} is no size" if words else "it does not say which size"
            hint = did_you_mean(words[0][:40], known) if words else example
            raise self.mistake(seen, "one of " + ", ".join(known), hint if hint.startswith("did") else example)
        return words[0]
