"""The roofline: directions in which speeds must move, memory, and measured figures that are not in the table."""

import math

import pytest

from gavelx.estimator.combined import Combined
from gavelx.estimator.job_names import read_job
from gavelx.estimator.roofline import needed_gb, step_seconds
from gavelx.files.csvs import read_rows
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.locate import data_path
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting

SHEETS = load_data_sheets()


@pytest.fixture(scope="module")
def estimator() -> Combined:
    made = Combined(SHEETS)
    made.observe(shipped_measurements())
    return made


def speed(estimator: Combined, *way: object) -> float:
    (estimate,) = estimator.estimate([Setting(*way)])  # type: ignore[arg-type]
    return estimate.steps_per_second


def seconds(name: str, device: str = "a100-80gb-sxm", width: int = 1, together: bool = True) -> float:
    job = read_job(name)
    assert job is not None
    return step_seconds(job, Setting(name, device, width, together), SHEETS.find(device))


def needs(name: str, width: int = 1) -> float:
    job = read_job(name)
    assert job is not None
    return needed_gb(job, width)


def test_more_work_takes_longer() -> None:
    assert seconds("llama-7b-lora-bs16") < seconds("llama-13b-lora-bs16") < seconds("llama-13b-full-bs16")
    assert seconds("llama-7b-lora-bs16") < seconds("llama-7b-lora-bs32") < seconds("llama-7b-lora-seq4096-bs32")
    assert seconds("vit-b16-bs64") < seconds("vit-l16-bs64") < seconds("vit-l16-res384-bs64")
    assert seconds("sd1.5-bs8") < seconds("sdxl-bs8")


def test_faster_devices_and_wider_gangs_take_less_time_and_spread_ones_more() -> None:
    name = "llama-7b-full-bs64"
    assert seconds(name, "h100-80gb-sxm") < seconds(name) < seconds(name, "v100-32gb-sxm")
    assert seconds(name, width=8) < seconds(name, width=2) < seconds(name)
    assert seconds(name, width=8) > seconds(name) / 8
    assert seconds(name, width=8, together=False) > seconds(name, width=8)


def test_memory() -> None:
    assert needs("llama-7b-qlora-bs1") < needs("llama-7b-lora-bs1") < needs("llama-7b-full-bs1")
    assert needs("llama-7b-full-bs1") < needs("llama-7b-pretrain-bs1")
    assert needs("llama-70b-lora-bs8", 8) < 80 < needs("llama-70b-lora-bs8")
    # measured by ModelScope (ms-swift, 2024): qwen-7b LoRA of 512 tokens needs 18 GiB, full fine-tuning 73 GiB
    assert needs("qwen-7b-lora-seq512-bs1") == pytest.approx(18.0, rel=0.2)
    assert needs("qwen-7.7b-full-seq512-bs1") == pytest.approx(73.4, rel=0.2)


def test_too_little_memory_is_a_speed_of_zero_with_its_reason(estimator: Combined) -> None:
    way = Setting("llama-7b-full-bs8", "rtx4090")
    (estimate,) = estimator.estimate([way])
    assert estimate[:3] == (0.0, 0.0, 0.0)
    assert estimator.why_not(way) == "cannot run: needs 63 GB, has 24"


# published in MLPerf Training v5.1, most on more devices than samples in a batch
@pytest.mark.parametrize("width", [8, 16, 64, 256, 512])
@pytest.mark.parametrize(
    "name", ["llama2-70b-lora-seq8192-bs8-fp8", "llama3-8b-pretrain-seq8192-bs16-fp8", "flux-res256-bs1024-fp8"]
)
def test_a_gang_wider_than_its_batch_is_estimated(estimator: Combined, name: str, width: int) -> None:
    for device in ("h100-80gb-sxm", "h200-141gb-sxm", "b200-192gb-sxm", "gb300", "mi300x"):
        for together in (True, False):
            way = Setting(name, device, width, together)
            (estimate,) = estimator.estimate([way])
            assert estimator.why_not(way) == ""
            assert 0 < estimate.lower <= estimate.steps_per_second <= estimate.upper
            assert estimate.lower < estimate.upper or estimate.origin == "measured"


def test_only_too_little_memory_of_all_devices_is_refused(estimator: Combined) -> None:
    name = "llama3-405b-pretrain-seq8192-bs8-fp8"
    assert "GB on each device" in estimator.why_not(Setting(name, "h100-80gb-sxm", 8))
    assert not any(estimator.why_not(Setting(name, "h100-80gb-sxm", width)) for width in (256, 512, 1024))


def test_a_wider_gang_than_the_batch_is_estimated_with_a_wider_range(estimator: Combined) -> None:
    name = "llama2-70b-lora-seq8192-bs8-fp8"
    narrow, wide = estimator.estimate([Setting(name, "h200-141gb-sxm", width) for width in (8, 64)])
    assert wide.steps_per_second > narrow.steps_per_second
    assert wide.upper / wide.lower > narrow.upper / narrow.lower


def test_a_measurement_overrules_what_memory_says() -> None:
    name, device = "llama-13b-full-bs8", "rtx4090"
    way = Setting(name, device, 4)
    made = Combined(SHEETS)
    made.observe(shipped_measurements())
    assert made.why_not(way)
    made.observe([Measurement(way, 0.5)])
    more = [way, way._replace(scale_factor=8), way._replace(consolidated=False), Setting(name, "a100-40gb-sxm", 4)]
    assert [made.why_not(each) for each in more] == [""] * 4
    assert all(estimate.steps_per_second > 0 for estimate in made.estimate(more))
    assert made.why_not(way._replace(scale_factor=1))


def test_each_name_of_four_bit_precision_means_the_same(estimator: Combined) -> None:
    jobs = [read_job(f"llama3-8b-pretrain-bs64-{precision}") for precision in ("fp4", "nvfp4", "mxfp4")]
    assert jobs[0] is not None and jobs[0] == jobs[1] == jobs[2]
    speeds = [
        speed(estimator, f"llama3-8b-pretrain-bs64-{p}", "b200-192gb-sxm", 8) for p in ("bf16", "fp8", "fp4")
    ]
    assert speeds[0] < speeds[1] < speeds[2]


def test_a_measured_speed_is_returned_as_measured(estimator: Combined) -> None:
    one = next(one for one in shipped_measurements() if "H100" in one.way.accelerator.upper())
    (estimate,) = estimator.estimate([one.way])
    assert (estimate.steps_per_second, estimate.origin) == (one.steps_per_second, "measured")


# tokens/s of 8 H100 from torchtitan's benchmark of 2024-12, which is not in the table
@pytest.mark.parametrize(
    ("name", "width", "tokens_per_s"),
    [
        ("llama3.1-8b-pretrain-seq8192-bs16", 8, 8 * 6667.0),
        ("llama3.1-8b-pretrain-seq8192-bs256", 128, 128 * 6514.0),
    ],
)
def test_figures_that_are_not_in_the_table(
    estimator: Combined, name: str, width: int, tokens_per_s: float
) -> None:
    job = read_job(name)
    assert job is not None
    (estimate,) = estimator.estimate([Setting(name, "H100-80GB", width)])
    expected = tokens_per_s / job.length / job.batch
    assert estimate.lower <= expected <= estimate.upper
    assert abs(math.log(estimate.steps_per_second / expected)) < 0.4


def test_what_cannot_be_known_is_unknown(estimator: Combined) -> None:
    (estimate, other) = estimator.estimate([Setting("mine", "a100-80gb"), Setting("llama-7b-lora-bs1", "abacus")])
    assert (estimate.origin, other.origin) == ("unknown", "unknown")


def test_estimates_do_not_depend_on_the_order_of_what_is_wanted(estimator: Combined) -> None:
    wanted = [Setting("vit-b16-bs64", name) for name in ("t4", "l4", "h100-80gb-sxm")]
    assert estimator.estimate(wanted) == estimator.estimate(wanted[::-1])[::-1]
    assert speed(estimator, "vit-b16-bs64", "t4") < speed(estimator, "vit-b16-bs64", "h100-80gb-sxm")


@pytest.mark.parametrize(
    "device",
    [
        *("v100-16gb-sxm", "a100-80gb-sxm", "h100-80gb-sxm", "h200-141gb-sxm", "gh200-96gb", "b100-192gb-sxm"),
        *("b200-192gb-sxm", "gb200", "b300-288gb-sxm", "gb300", "mi100", "mi250x", "mi300x", "mi300a", "mi355x"),
        *("p100-sxm", "tpu-v4", "tpu-v7", "trainium2", "trainium3", "inferentia2", "gaudi2", "gaudi3"),
    ],
)
def test_devices_with_links_of_their_own_gain_by_their_number(device: str) -> None:
    """Eight of them are more than four times as fast as one; eight fast cards on PCIe are not."""
    job = "llama-7b-full-bs64"
    assert seconds(job, device, 8) < seconds(job, device) / 4.0
    assert seconds(job, "h100-80gb-pcie", 8) > seconds(job, "h100-80gb-pcie") / 4.0


def test_links_are_those_of_the_data_sheets() -> None:
    """A new device needs no code: whatever its name, its gangs are as fast as its link."""
    job, n = read_job("llama-7b-full-bs64"), 8
    assert job is not None
    plain = SHEETS.find("h100-80gb-pcie")
    assert math.isnan(plain.link_gb_s)
    times = [
        step_seconds(job, Setting("any", "xpu-sxm", n), plain._replace(link_gb_s=link_gb_s))
        for link_gb_s in (math.nan, 20.0, 100.0, 1000.0)
    ]
    assert times[0] == pytest.approx(times[1]) and times[1] > times[2] > times[3]


def test_slices_of_a_device_have_no_link() -> None:
    job = "llama-7b-lora-bs64"
    assert seconds(job, "h100-7g.80gb") == seconds(job, "h100-80gb-sxm")
    assert seconds(job, "h100-7g.80gb", 8) > seconds(job, "h100-80gb-sxm", 8)
    assert math.isnan(SHEETS.find("h100-7g.80gb").link_gb_s)


def test_each_device_has_a_link_or_is_on_the_bus() -> None:
    for row in read_rows(data_path("throughputs", "accelerators"), ("accelerator", "link")):
        on_bus = row.text("link").startswith("PCIe") or row.text("link") == "none"
        assert on_bus == math.isnan(SHEETS.find(row.text("accelerator")).link_gb_s), row.text("accelerator")
