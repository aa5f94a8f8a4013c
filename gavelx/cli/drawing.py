"""Random jobs: of the published job types, or of those that the user names."""

from difflib import get_close_matches

from gavelx.cli.estimated_speeds import check_names
from gavelx.errors import OptionError
from gavelx.estimated_speeds import with_estimates
from gavelx.files.texts import shown
from gavelx.jobs import Job
from gavelx.simulator.random_jobs import PUBLISHED, REFERENCE, WIDTHS, JobTypes, random_jobs
from gavelx.throughputs import Throughputs

TODAY = "today"
TODAYS_JOBS = (
    *("llama-7b-lora-bs16", "llama-7b-full-bs64", "llama-13b-lora-bs16", "gpt-1.3b-pretrain-seq2048-bs64"),
    *("gpt-350m-pretrain-seq1024-bs64", "bert-large-pretrain-seq128-bs256", "vit-b16-bs256", "vit-l16-bs128"),
    *("sdxl-lora-bs8", "sd1.5-bs32", "dlrm-bs65536", "whisper-large-bs32"),
)
"""What ``--job-types today`` stands for: language models, images, recommendation and speech."""
REFERENCE_OF_TODAY = "a100-80gb"


def drawn_jobs(
    count: int,
    job_types: str | None,
    table: Throughputs,
    *,
    arrival_rate: float,
    seed: int,
    multi_gpu: bool,
    multi_priority: bool,
) -> tuple[Job, ...]:
    """So many random jobs; of the published types unless ``job_types`` names others, between commas, or ``today``.

    The drawn duration is that on a V100 if the table knows all of the types there, else on an A100 with 80 GB, at
    estimated speeds. Raises :class:`OptionError` for a name that cannot be read, or a job that does not fit there.
    """
    types, speeds = (PUBLISHED, table) if job_types is None else _named(job_types, table, wide=multi_gpu)
    return random_jobs(
        count,
        speeds,
        arrival_rate_per_hour=arrival_rate,
        seed=seed,
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
        types=types,
    )


def _named(text: str, table: Throughputs, *, wide: bool) -> tuple[JobTypes, Throughputs]:
    """The job types of this text, and a table that has their speeds on the reference type."""
    named = TODAYS_JOBS if text.strip() == TODAY else tuple(name.strip() for name in text.split(","))
    where, widths = "--job-types", WIDTHS if wide else (1,)
    if not all(named):
        raise OptionError(f"{text!r} has an empty name", where=where, hint="--job-types today")
    if (
        len(named) == 1
        and named[0] not in table.job_types
        and get_close_matches(named[0].lower(), [TODAY], cutoff=0.7)
    ):
        raise OptionError(f"unknown job type {shown(named[0])}", where=where, hint=f"did you mean {TODAY!r}?")
    probes = [Job(n, name, 1.0, width) for n, (name, width) in enumerate((a, b) for a in named for b in widths)]
    all_known = all(table.get(job.job_type, REFERENCE, job.scale_factor) for job in probes)
    reference = REFERENCE if all_known else REFERENCE_OF_TODAY
    check_names(probes, [reference], table, where)
    speeds = with_estimates(table, probes, [reference])
    runs = {name: [width for width in widths if speeds.get(name, reference, width)] for name in named}
    for name in named:
        if 1 not in runs[name]:
            problem = f"{name} does not run on one {reference}, so no duration can be drawn for it"
            raise OptionError(problem, where=where, expected="jobs that fit there", hint="--trace FILE")
    everywhere = tuple(name for name in named if len(runs[name]) == len(widths))
    return JobTypes(named, everywhere, reference), speeds
