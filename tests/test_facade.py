"""``from gavelx import ...``: every exported name is there, is typed, and is loaded only when it is asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gavelx


def typed() -> dict[str, str]:
    """What type checkers believe: names by module, from the source."""
    tree = ast.parse(Path(gavelx.__file__).read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module or ""
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", gavelx.__all__)
def test_every_exported_name_is_what_its_home_has(name: str) -> None:
    assert getattr(gavelx, name) is getattr(importlib.import_module(typed()[name]), name)


def test_what_is_exported_is_typed_and_listed() -> None:
    assert sorted(typed()) == gavelx.__all__
    assert set(gavelx.__all__) <= set(dir(gavelx))


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'gavelx' has no attribute 'simulat'"):
        _ = gavelx.simulat  # type: ignore[attr-defined]


def test_nouns_load_no_solver() -> None:
    code = "import sys; from gavelx import Cluster, Job; print(*sorted(sys.modules), sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"highspy", "clarabel", "scipy", "matplotlib", "gavelx.solvers"} & set(run.stdout.split())


def test_policies_are_compared_on_the_same_jobs() -> None:
    throughputs = gavelx.load_throughputs("simulation")
    cluster, jobs = gavelx.Cluster.parse("v100=2,k80=2"), gavelx.random_jobs(6, throughputs, seed=1)
    policies = [gavelx.load_policy(name) for name in ("fifo", "max_min_fairness")]
    results = gavelx.compare(policies, jobs, cluster, throughputs)
    alone = gavelx.simulate(policies[1], jobs, cluster, throughputs)
    assert [result.policy for result in results] == ["fifo", "max_min_fairness"]
    assert results[1].completion_s_J.tobytes() == alone.completion_s_J.tobytes()
