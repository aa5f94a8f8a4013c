"""Little is measured, and the rest is estimated well and with honest intervals, on tables of other worlds too."""

import itertools
import math

import numpy as np
import pytest

from gavelx.accelerators import NO_DATA_SHEETS
from gavelx.estimator.completion import Completion
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.throughput_tables import load_throughputs
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing, Setting

DEVICES = ("t4", "a10", "v100", "a100-40gb", "h100-80gb")
JOBS = [f"{model} (batch size {size})" for model in ("bert", "vgg16", "gpt") for size in (8, 16, 32, 64)]


def world(seed: int, noise: float = 0.05) -> dict[Way, float]:
    """A table of other GPUs and models: a law with effects of jobs, devices and partners, and noise."""
    random = np.random.default_rng(seed)
    sheets = load_data_sheets()
    speed = {d: math.log(sheets.find(d).bandwidth_gb_s) * 0.7 + random.normal(0, 0.1) for d in DEVICES}
    level = {job: random.normal(0, 2) for job in JOBS}
    fit = {(job.split()[0], d): random.normal(0, 0.15) for job in JOBS for d in DEVICES}
    suffers, harms = ({job: random.normal(0, 0.2) for job in JOBS} for _ in range(2))

    def log(way: Way) -> float:
        alone = level[way.job_type] + speed[way.accelerator] + fit[way.job_type.split()[0], way.accelerator]
        if isinstance(way, Pairing):
            return alone - 0.6 + suffers[way.job_type] + harms[way.partner]
        return alone + 0.85 * math.log(way.scale_factor) - 0.2 * (not way.consolidated)

    shapes = [(1, True), (4, True), (4, False)]
    ways: list[Way] = [Setting(j, d, *shape) for j, d, shape in itertools.product(JOBS, DEVICES, shapes)]
    ways += [Pairing(a, b, d) for a, b, d in itertools.product(JOBS, JOBS, DEVICES)]
    return {way: math.exp(log(way) + random.normal(0, noise)) for way in ways}


def asked(known: dict[Way, float], wanted: list[Way], level: float = 0.9) -> list[Estimate]:
    estimator = Completion(load_data_sheets())
    estimator.observe(Measurement(way, speed) for way, speed in known.items())
    return estimator.estimate(wanted, level)


def judged(truth: dict[Way, float], known: dict[Way, float], level: float = 0.9) -> tuple[float, float]:
    """Median relative error and coverage of all that is not known."""
    wanted = [way for way in truth if way not in known]
    answers = asked(known, wanted, level)
    errors = [abs(one.steps_per_second / truth[way] - 1) for way, one in zip(wanted, answers, strict=True)]
    held = [one.lower <= truth[way] <= one.upper for way, one in zip(wanted, answers, strict=True)]
    return float(np.median(errors)), float(np.mean(held))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_pairs_from_a_share_of_them(share: float) -> None:
    truth, random = world(1), np.random.default_rng(2)
    known = {way: v for way, v in truth.items() if isinstance(way, Setting) or random.random() < share}
    error, held = judged(truth, known)
    assert error < 0.10
    assert 0.85 <= held <= 0.985


@pytest.mark.parametrize("device", ["t4", "h100-80gb"])
def test_a_device_of_which_two_jobs_are_known(device: str) -> None:
    truth = world(3)
    few = {JOBS[0], JOBS[7]}
    known = {w: v for w, v in truth.items() if w.accelerator != device or {w.job_type, w[1]} & few == {w.job_type}}
    error, held = judged(truth, {w: v for w, v in known.items() if isinstance(w, Setting)})
    assert error < 0.25
    assert held > 0.8


def test_gangs_of_one_size_may_run_on_faster_servers() -> None:
    random = np.random.default_rng(11)
    fit = {key: random.normal(0, 0.1) for key in itertools.product(JOBS, DEVICES)}
    faster = {("h100-80gb", 8): 1.0}  # only these have a fast network
    truth: dict[Way, float] = {
        Setting(job, d, n): n**0.8 * math.exp(fit[job, d] + faster.get((d, n), 0.0))
        for job, d, n in itertools.product(JOBS, DEVICES, (1, 2, 4, 8))
    }
    few = {JOBS[0], JOBS[7]}
    known = {w: v for w, v in truth.items() if w.accelerator != "h100-80gb" or w.job_type in few}
    wanted = [Setting(JOBS[3], "h100-80gb", n) for n in (2, 4, 8)]
    answers = zip(wanted, asked(known, wanted), strict=True)
    two, four, eight = (math.log(one.steps_per_second / truth[way]) for way, one in answers)
    assert abs(eight - four) < 0.25 and abs(eight - two) < 0.25


@pytest.mark.parametrize("together", [2500, 40])
def test_doubt_is_lessened_most_of_what_is_like_what_is_measured(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavelx.estimator.completion.EXACT_MAX", together)
    truth = {way: v for way, v in world(7).items() if isinstance(way, Setting)}
    estimator = Completion(load_data_sheets())
    estimator.observe(Measurement(way, v) for way, v in truth.items() if way.accelerator != "t4")
    measured, kin, other = (Setting(job, "t4") for job in (JOBS[0], JOBS[1], JOBS[9]))
    before, after = (estimator.doubt([measured, kin, other], once) for once in ([], [measured]))
    lessened = 1 - after / before
    assert lessened[0] > lessened[1] > lessened[2] > 0
    assert estimator.estimate([measured])[0].origin == "estimated"  # nothing was taken for known


def test_a_job_of_which_two_cells_are_known() -> None:
    truth = {way: v for way, v in world(4).items() if isinstance(way, Setting)}
    new = JOBS[5]
    mine = [way for way in truth if way.job_type == new]
    error, held = judged(truth, {w: v for w, v in truth.items() if w.job_type != new or w in (mine[0], mine[7])})
    assert error < 0.2
    assert held > 0.8


def of_one_model(batch_sizes: tuple[int, ...], unit: float = 1.0) -> dict[Way, float]:
    """Steps of a model that takes a while for itself, and then for each sample."""
    seconds = {d: (0.02 / speed, 0.001 / speed) for d, speed in (("t4", 1.0), ("v100", 3.0), ("h100-80gb", 9.0))}
    return {
        Setting(f"bert_bs_{size}", d): unit / (own + each * size)
        for size in batch_sizes
        for d, (own, each) in seconds.items()
    }


def test_the_level_of_a_batch_size_is_that_of_its_neighbours() -> None:
    """A single cell that is too slow is believed in part: the neighbours say that it is noise."""
    truth, random = of_one_model((8, 16, 32, 64, 128, 256)), np.random.default_rng(9)
    single, wanted = Setting("bert_bs_32", "v100"), Setting("bert_bs_32", "h100-80gb")
    known = {way: v * math.exp(random.normal(0, 0.15)) for way, v in truth.items() if way.job_type != "bert_bs_32"}
    (one,) = asked(known | {single: truth[single] / 1.6}, [wanted])
    assert 0.7 < one.steps_per_second / truth[wanted] < 1.1


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_a_batch_size_without_measurements_is_estimated_from_others_of_its_model(unit: float) -> None:
    truth = of_one_model((8, 16, 32, 64, 128), unit)
    known = {way: v for way, v in truth.items() if way.job_type != "bert_bs_32"}
    inside = [way for way in truth if way not in known]
    far = Setting("bert_bs_4096", "v100")
    *near, beyond, other = asked(known, [*inside, far, Setting("gpt_bs_32", "v100")])
    for way, one in zip(inside, near, strict=True):
        assert one.steps_per_second == pytest.approx(truth[way], rel=0.1) and one.lower < truth[way] < one.upper
        assert one.upper / one.lower < beyond.upper / beyond.lower
    assert other.origin == "unknown"


def test_batch_sizes_that_have_nothing_in_common_keep_their_levels() -> None:
    random, sizes = np.random.default_rng(8), (8, 16, 32, 64, 128, 256)
    truth = {
        way: v * unit
        for size in sizes
        for unit in [math.exp(random.normal(0, 3))]
        for way, v in of_one_model((size,)).items()
    }
    hidden = [Setting(f"bert_bs_{size}", "v100") for size in sizes[::2]]
    answers = asked({way: v for way, v in truth.items() if way not in hidden}, list(hidden))
    assert all(
        one.steps_per_second == pytest.approx(truth[way], rel=0.25)
        for way, one in zip(hidden, answers, strict=True)
    )


def test_a_device_that_nobody_ever_used_is_judged_by_its_data_sheet() -> None:
    known: dict[Way, float] = {Setting(job, device): 1.0 for job in JOBS for device in ("t4", "v100")}
    (h100, unheard) = asked(known, [Setting(JOBS[0], "h100-80gb"), Setting(JOBS[0], "unheard of")])
    assert h100.steps_per_second > 1.2
    assert h100.upper / h100.lower < unheard.upper / unheard.lower


def test_which_devices_suit_the_same_jobs_is_learnt_where_no_data_sheet_says() -> None:
    random = np.random.default_rng(5)
    jobs, devices = [f"job {j}" for j in range(30)], [f"chip {d}" for d in range(6)]
    logs = random.normal(0, 0.3, 30)[:, None] * random.normal(0, 1, 6) + random.normal(0, 0.02, (30, 6))
    truth: dict[Way, float] = {
        Setting(job, device): math.exp(logs[j, d])
        for j, job in enumerate(jobs)
        for d, device in enumerate(devices)
    }
    error, held = judged(truth, {way: v for way, v in truth.items() if random.random() < 0.7})
    assert error < 0.05 and held > 0.85


@pytest.mark.slow
def test_a_noisier_world_has_wider_intervals() -> None:
    def width(noise: float) -> float:
        truth, random = world(5, noise), np.random.default_rng(6)
        known = {way: v for way, v in truth.items() if random.random() < 0.4}
        answers = asked(known, [way for way in truth if way not in known])
        return float(np.mean([math.log(one.upper / one.lower) for one in answers]))

    assert width(0.3) > 2 * width(0.02)


def test_measurements_with_errors_come_back_with_intervals() -> None:
    way = Setting("bert", "v100")
    estimator = Completion(load_data_sheets())
    estimator.observe([Measurement(way, 10.0, 0.1), Measurement(way, 11.0, 0.1)])
    (one,) = estimator.estimate([way])
    assert one.steps_per_second == pytest.approx(math.sqrt(110.0))
    assert one.upper / one.steps_per_second == pytest.approx(math.exp(1.645 * 0.1 / math.sqrt(2)), rel=1e-3)
    assert one.origin == "measured"


def test_measurements_that_contradict_each_other_are_not_sure() -> None:
    way = Setting("bert", "t4")
    for errors, low, high in (((0.0, 0.0), 5, 18), ((0.01, 0.01), 5, 18), ((2.0, 2.0), 1, 90)):
        estimator = Completion(load_data_sheets())
        estimator.observe(Measurement(way, v, error) for v, error in zip((6.0, 15.0), errors, strict=True))
        (one,) = estimator.estimate([way])
        assert one.origin == "measured" and one.steps_per_second == pytest.approx(90**0.5)
        assert low / 2 < one.lower < low and high < one.upper < 2 * high


def test_speeds_near_the_end_of_numbers_stay_numbers() -> None:
    known: dict[Way, float] = {Setting("a", "t4"): 1e308, Setting("b", "t4"): 1e-308}
    for one in asked(known, [Setting(job, "h100-80gb", 8) for job in "ab"]):
        assert 0 <= one.lower <= one.steps_per_second <= one.upper < math.inf


def test_a_failure_stands_until_it_ran_later() -> None:
    way = Setting("bert", "v100")
    estimator = Completion(NO_DATA_SHEETS)
    estimator.observe(
        [Measurement(way, 3.0, measured_at="2026-01-01"), Measurement(way, 0.0, measured_at="2026-02-01")]
    )
    assert estimator.estimate([way])[0] == Estimate(0.0, 0.0, 0.0, "measured")
    estimator.observe([Measurement(way, 3.0, measured_at="2026-03-01")])
    assert estimator.estimate([way])[0].steps_per_second == 3.0


@pytest.mark.slow
def test_where_there_are_more_cells_than_are_solved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, random = world(6), np.random.default_rng(7)
    known = {way: v for way, v in truth.items() if random.random() < 0.4}
    exact, _ = judged(truth, known)
    monkeypatch.setattr("gavelx.estimator.completion.EXACT_MAX", 100)
    in_parts, held = judged(truth, known)
    assert in_parts < max(0.1, 1.5 * exact)
    assert held >= 0.8


def test_ten_per_cent_of_the_published_pairs() -> None:
    table, random = load_throughputs("simulation"), np.random.default_rng(0)
    truth: dict[Way, float] = {**table.isolated, **table.colocated}
    shown = {
        frozenset(way[:2]) | {way.accelerator}
        for way in table.colocated
        if way.job_type <= way.partner and random.random() < 0.1
    }
    known = {w: v for w, v in truth.items() if isinstance(w, Setting) or frozenset(w) in shown}
    error, held = judged({w: v for w, v in truth.items() if v > 0 or w in known}, known)
    assert error < 0.12
    assert 0.85 <= held <= 0.97


@pytest.mark.parametrize("power", [-0.3, 0.9])
def test_gangs_grow_by_a_power_that_few_cells_tell(power: float) -> None:
    """Each model has its own power of the number of devices, near one that no prior foretells."""
    random = np.random.default_rng(5)
    sheets = load_data_sheets()
    speed = {d: math.log(sheets.find(d).bandwidth_gb_s) * 0.7 + random.normal(0, 0.1) for d in DEVICES}
    powers = {job.split()[0]: random.normal(power, 0.1) for job in JOBS}
    truth: dict[Way, float] = {
        Setting(job, device, width): math.exp(speed[device] + powers[job.split()[0]] * math.log(width))
        for job, device, width in itertools.product(JOBS, DEVICES, (1, 2, 4, 8))
    }
    ways = list(truth)
    known = [ways[i] for i in random.permutation(len(ways))[: len(ways) // 8]]
    estimator = Completion(sheets)
    estimator.observe(Measurement(way, truth[way]) for way in known)
    hidden = [way for way in ways if way not in known and way.job_type in {one.job_type for one in known}]
    errors = [
        abs(math.log(one.steps_per_second / truth[way]))
        for way, one in zip(hidden, estimator.estimate(hidden, 0.9), strict=True)
    ]
    assert float(np.median(errors)) < 0.02
