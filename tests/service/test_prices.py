"""What devices cost that no throughput table knows, and what is said of those that nobody knows a price of."""

import json
from collections.abc import Callable
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from gavelx.cli import main
from gavelx.cli.cluster_options import ServeOptions
from gavelx.cli.serving import _configure
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.replay import read_recorded
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import entry_of
from gavelx.throughputs import Setting, Throughputs
from tests.service.agents import FakeAgent, User, configuration, serving, spec, user_of
from tests.service.background import Background
from tests.service.running import run
from tests.service.test_metrics import until_they_are
from tests.waiting import until, wait_until

COSTLY = "with_constraints(max_min_fairness, Cost() <= 1e6)"
NEW = {"h100": 200.0}
"""A speed of a type that no table has, as a job says it."""


def configured(prices: str | None, found: Configuration | None = None) -> Configuration:
    return _configure(ServeOptions(prices=prices))(found)


def test_prices_of_types_that_no_table_knows_are_kept() -> None:
    assert configured("h100=2.5").prices.usd_per_hour == dict.fromkeys(("h100", "h100-80gb", "h100-80gb-sxm"), 2.5)
    mixed = configured("gcp+h100=2.5,cpu=0.1").prices
    assert (mixed.of("h100"), mixed.of("cpu")) == (2.5, 0.1)
    assert mixed.of("l4") == configured(None).prices.of("l4") > 0
    assert mixed.of("v100-16gb") == mixed.of("v100") > 0
    assert isnan(configured("v100=2").prices.of("p100"))


def test_prices_without_a_price_or_with_a_bad_one_are_refused(tmp_path: Path) -> None:
    only_spot, bad = tmp_path / "spot.csv", tmp_path / "bad.csv"
    only_spot.write_text("accelerator,price_usd_per_hour,price_kind\nh100,2,spot\n")
    bad.write_text("accelerator,price_usd_per_hour\nh100,700.0\nv100,2\n")
    for path, said in ((only_spot, "has no price on demand"), (bad, "row 2: \\$700.0")):
        with pytest.raises(Exception, match=said):
            configured(str(path))


def test_a_log_of_before_keeps_its_prices_until_others_are_named() -> None:
    before = configuration()
    assert configured(None, before).prices is before.prices
    assert configured("h100=2.5", before).prices.of("h100") == 2.5


@pytest.mark.slow
def test_a_device_without_a_price_costs_an_unknown_amount_and_one_with_a_price_costs_it(tmp_path: Path) -> None:
    async def main() -> None:
        priced = replace(configuration(), prices=Prices({"v100": 3600.0, "h100": 7200.0}))
        for name, made_with, dollars in (("without", configuration(), None), ("with", priced, 1.0)):
            options = {"configuration": made_with, "metrics": "127.0.0.1:0"}
            async with serving(tmp_path / name, **options) as service, user_of(service) as user:
                async with FakeAgent(service.address, "new", accelerator="h100"):
                    ids = await user.submit(spec(100.0, steps_per_s=NEW))
                    (job,) = await user.until("complete", *ids)
                    explained = await user.call("Explain", wire.ExplainRequest(version=1, job_id=ids[0]))
                    await until_they_are(service.metrics_address, devices=1, devices_unpriced=dollars is None)
            spent = json.loads(explained.explanation_json)["spent_usd"]
            if dollars is None:
                assert spent is None and isnan(job.spent_usd)
            else:
                assert spent == job.spent_usd > dollars / 2

    run(main())


@pytest.mark.slow
def test_a_policy_about_money_says_which_price_is_missing_and_goes_on_when_it_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, policy=COSTLY) as service, user_of(service) as user:
            async with FakeAgent(service.address), FakeAgent(service.address, "new", accelerator="h100"):
                (first,) = await user.submit(spec(1e6))
                await until_path(user, lambda path: "no price is known for h100" in path)
                await user.until("running", first)  # the allocation before stands in
                assert "h100" in service.solver.last_failure
        priced = replace(configuration(), prices=Prices({"v100": 1.0, "h100": 2.0}))
        async with serving(tmp_path, configure=lambda _: priced) as service, user_of(service) as user:
            async with FakeAgent(service.address), FakeAgent(service.address, "new", accelerator="h100"):
                await until_path(user, lambda path: not path.startswith("carried over"))
        recorded = read_recorded(str(tmp_path))
        assert recorded.prices.usd_per_hour == {"v100": 3600.0}
        assert [prices.usd_per_hour for _, prices in recorded.price_changes] == [{"v100": 1.0, "h100": 2.0}]

    run(main())


async def until_path(user: User, is_right: Callable[[str], bool]) -> None:
    """Wait until the way in which the last answer was found is as it should be."""
    path = ""

    async def there() -> bool:
        nonlocal path
        reply = await user.call("Status", wire.StatusRequest(version=1))
        path = json.loads(reply.certificate_json or '{"path": "carried over"}')["path"]
        return is_right(path)

    await until(there, "another answer", lambda: path)


@pytest.mark.slow
def test_status_and_replay_show_what_is_unknown_and_what_was_not_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unpriced = Configuration(Throughputs({Setting("net", "v100"): 100.0}), Prices({"k80": 1.0}))
    running = Background(tmp_path, configuration=unpriced, policy=COSTLY)
    monkeypatch.setenv("GAVELX_SCHEDULER", running.address)
    monkeypatch.setenv("COLUMNS", "200")

    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        return capsys.readouterr().out

    try:
        said("submit", "--type", "net", "--steps", "50", "--", "true")
        job = lambda: json.loads(said("status", "0", "--json"))["jobs"][0]  # noqa: E731
        wait_until(lambda: job()["state"] == "complete", "job 0 is complete", job)
        assert job()["spent_usd"] is None
        table = said("status", "0")
        assert "unknown" in table and "$" not in table
        assert "so the previous allocation is used: Cost(): no price is known for v100" in " ".join(table.split())
        assert (
            "unknown" in said("explain", "0") and json.loads(said("explain", "0", "--json"))["spent_usd"] is None
        )
    finally:
        running.close()
    replayed = ("replay", str(tmp_path), "--policy", "fifo")
    assert json.loads(said(*replayed, "--json", "-"))["cost_usd"] is None
    assert "unknown" in said(*replayed)
    assert json.loads(said(*replayed, "--prices", "v100=3600", "--json", "-"))["cost_usd"] == pytest.approx(0.5)


@pytest.mark.slow
def test_a_log_written_while_unknown_prices_counted_as_nothing_is_read(tmp_path: Path) -> None:
    """Its records have no dollars in them, so what was $0.00 is now unknown."""

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address, "new", accelerator="h100"):
                ids = await user.submit(spec(100.0, steps_per_s=NEW))
                await user.until("complete", *ids)
            log = Log(service.options.state, read_only=True)
            body = log.configuration
            assert body is not None and "h100" not in body["prices"]
            state = State(Configuration.from_json(body))
            for record in log.read():
                state.apply(entry_of(record))
            log.close()
            assert isnan(state.jobs[ids[0]].spent_usd)

    run(main())
