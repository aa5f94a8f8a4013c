"""The rule from durations to steps."""

import pytest

from gavelx.errors import OptionError
from gavelx.files.importers.recorded import Recorded
from gavelx.files.importers.steps import CLOSEST, Conversion
from gavelx.files.throughput_tables import TABLES, load_throughputs
from gavelx.jobs import Job
from gavelx.throughputs import Setting, Throughputs

TABLE = load_throughputs("simulation")
SMALL = Throughputs(
    {
        Setting("LM (batch size 5)", "v100", 1): 10.0,
        Setting("LM (batch size 80)", "v100", 1): 2.0,
        Setting("LM (batch size 80)", "v100", 4): 6.0,
        Setting("GAN", "v100", 1): 0.0,
        Setting("GAN", "k80", 8): 3.0,
    },
    name="small",
)


def job(table: Throughputs = SMALL, seed: int = 0, **recorded: object) -> Job:
    whole = Recorded(arrival_s=10.0, **recorded)  # type: ignore[arg-type]
    return Conversion(table, seed=seed).job(whole, 0, 4.0)


@pytest.mark.parametrize(
    ("gpus", "scale_factor", "duration_s"),
    [(0.25, 1, 60), (1, 1, 60), (0.1 + 0.2 + 0.7, 1, 60), (2, 4, 30), (4, 4, 60), (32, 4, 480)],
)
def test_device_time_of_whole_devices_stays_the_same(gpus: float, scale_factor: int, duration_s: float) -> None:
    made = job(gpus=gpus, duration_s=60.0)
    assert (made.scale_factor, made.duration_s) == (scale_factor, pytest.approx(duration_s))
    assert made.duration_s * made.scale_factor == pytest.approx(60.0 * max(gpus, 1.0))  # type: ignore[operator]
    assert made.arrival_s == 6


def test_steps_are_duration_times_speed() -> None:
    assert job(gpus=2, duration_s=60.0).total_steps == 30 * 6.0


@pytest.mark.parametrize(("batch_size", "chosen"), [(1, 5), (19, 5), (21, 80), (4096, 80)])
def test_the_nearest_batch_size_is_taken(batch_size: int, chosen: int) -> None:
    made = job(gpus=1, duration_s=60.0, model="deepspeech2", batch_size=batch_size)
    assert made.job_type == f"LM (batch size {chosen})"


def test_samples_become_steps_of_the_job_type() -> None:
    made = job(gpus=1, samples=800.0, model="lm", batch_size=64)
    assert (made.job_type, made.total_steps, made.duration_s) == ("LM (batch size 80)", 10, 5)


def test_a_deadline_stays_where_it_is() -> None:
    made = job(gpus=2, duration_s=60.0, deadline_s=100.0)
    assert made.deadline_s == pytest.approx(96.0)


def test_the_seed_draws_the_job_type() -> None:
    drawn = {job(TABLE, seed=seed, gpus=1, duration_s=60.0).job_type for seed in range(300)}
    assert drawn == set(TABLE.job_types)
    wide = {job(TABLE, seed=seed, gpus=8, duration_s=60.0).job_type for seed in range(300)}
    assert all(TABLE.get(name, "v100", 8) for name in wide)
    assert job(TABLE, seed=7, gpus=1, duration_s=60.0) == job(TABLE, seed=7, gpus=1, duration_s=60.0)


def test_what_changed_is_counted() -> None:
    conversion = Conversion(SMALL)
    for recorded in (
        Recorded(arrival_s=0, gpus=1, duration_s=1, model="LM"),
        Recorded(arrival_s=0, gpus=2, duration_s=1, model="bert"),
        Recorded(arrival_s=0, gpus=8, duration_s=1, model="DeepSpeech2"),
        Recorded(arrival_s=0, gpus=1, total_steps=1, job_type="GAN"),
    ):
        conversion.job(recorded, 0, 0)
    assert +conversion.changes == {
        "job_types_named": 1,
        "job_types_drawn": 1,
        "job_types_closest": 1,
        "gpus_rounded_up": 1,
        "gpus_cut": 1,
        "runs_nowhere": 1,
    }


@pytest.mark.parametrize("table", TABLES)
def test_the_closest_models_are_in_the_shipped_tables(table: str) -> None:
    models = {name.partition(" (")[0] for name in load_throughputs(table).job_types}
    assert set(CLOSEST.values()) <= models


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(OptionError, match=r"--reference: .* no speed on 'v10'.* did you mean 'v100'"):
        Conversion(TABLE, "v10")
