"""Policies by name, by expression, by module and by file."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gavelx.errors import PolicyError
from gavelx.policies import Fifo, Policy, catalog, load_policy, split_policies

MINE = """
from gavelx.policies import Maximize, Policy, SumThroughput

best = Maximize(SumThroughput())

class Mine(Policy):
    def allocate(self, snapshot):
        return best.allocate(snapshot)

number = 7
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policies.py").write_text(MINE)
    (tmp_path / "broken_policies.py").write_text("import gavelx\n1 / 0\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.py").write_text(MINE)


def test_every_name_loads_and_every_policy_says_what_it_does() -> None:
    for name, policy in catalog().items():
        assert load_policy(name).name == name == str(policy)
        assert policy.__doc__


@pytest.mark.parametrize(
    "text",
    [
        "my_policies:best",
        "my_policies:Mine",
        "my_policies.py:best",
        "sub/deep.py:best",
        "agnostic(my_policies:best)",
    ],
)
def test_a_policy_in_a_file_of_the_user(text: str) -> None:
    assert isinstance(load_policy(text), Policy)


def test_an_installed_module_is_found() -> None:
    assert isinstance(load_policy("gavelx.policies.fifo:Fifo"), Policy)


def test_modifiers_nest_and_spaces_do_not_matter() -> None:
    assert str(load_policy(" agnostic( agnostic(fifo) ) ")) == "agnostic(agnostic(fifo))"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("fifoo", ["unknown policy 'fifoo'", "did you mean 'fifo'"]),
        ("", ["unknown policy ''"]),
        ("a" * 300, ["unknown policy 'aaa"]),
        ("a\0b", ["unknown policy 'a"]),
        ("agnostic(" * 1000 + "fifo" + ")" * 1000, ["a policy of 10004 characters", "at most 2000"]),
        ("agnostik(fifo)", ["unknown modifier 'agnostik'", "did you mean 'agnostic'"]),
        ("agnostic(fifo", ["unknown policy"]),
        ("agnostic(fifo, 3)", ["does not take 1 options", "expected agnostic(policy)"]),
        ("guarded(fifo)", ["does not take 0 options", "expected guarded(policy, teacher)"]),
        ("my_policies:bst", ["my_policies has no 'bst'", "did you mean 'best'"]),
        ("my_policies:number", ["int, not a policy"]),
        ("no_such_module:x", ["no_such_module", "a file no_such_module.py"]),
        ("broken_policies:x", ["broken_policies.py failed", "ZeroDivisionError"]),
        ("sub/none.py:x", ["sub/none.py"]),
        (":x", [":x", "no file is named before the colon", "my_file:my_policy"]),
        ("my_policies:", ["no object is named after the colon", "best, Mine"]),
        ("my_policies", ["unknown policy", "my_policies:NAME, an object in my_policies.py"]),
        ("las_2d(thresholds=3)", ["las_2d is a policy, not a modifier", "mine = Las2d(...) in my_file.py"]),
        (
            "my_policies:Mine(p=0.5)",
            ["arguments of Mine", "mine = Mine(p=0.5) in that file, and my_policies:mine"],
        ),
        ("my_policies:Mine(", ["arguments of Mine"]),
        ("maximize(Cost())", ["unknown modifier", "'Maximize'"]),
        ("Cost()", ["Cost is a term, not a policy", "Maximize(...)"]),
        ("hierarchical(max_min_fairness, a=1, a=2)", ["named twice", "each owner once"]),
        ("with_constraints(max_min_fairness)", ["no constraint is given", "Cost() <= 40"]),
        ("partitioned(max_min_fairness)", ["the number of parts is missing", "partitioned(max_min_fairness, 4)"]),
        ("partitioned(max_min_fairness, two)", ["'two' parts"]),
        ("../..:x", ["../.."]),
    ],
)
def test_a_wrong_policy_is_one_message(text: str, parts: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(text)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_lists_are_split_at_the_outer_commas() -> None:
    assert split_policies("fifo, agnostic(a,b) ,x:y") == ["fifo", "agnostic(a,b)", "x:y"]
    for bad in ("agnostic(fifo", "fifo)", "", " , "):
        with pytest.raises(PolicyError):
            split_policies(bad)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Mine(Policy):\n    pass", "Mine() failed"),
        ("class Mine(Policy):\n    def __init__(self, x): pass\n    def allocate(self, s): pass", "no arguments"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def __getattr__(name): raise RuntimeError('no')", "has no 'Mine'"),
    ],
)
def test_a_class_that_cannot_be_made_is_one_message(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "unmade.py").write_text(f"from gavelx.policies import Policy\n{source}\n")
    with pytest.raises(PolicyError) as caught:
        load_policy("unmade:Mine")
    assert words in str(caught.value)


def test_a_broken_package_breaks_only_its_own_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("queue", "gavelx.policies.fifo:Fifo", "gavelx.policies"),
        EntryPoint("broken", "gavelx.policies.fifo:Nothing", "gavelx.policies"),
        EntryPoint("number", "gavelx.policies.fifo:__name__", "gavelx.policies"),
    ]
    module = sys.modules[load_policy.__module__]
    monkeypatch.setattr(module, "entry_points", lambda group: entries)
    assert isinstance(load_policy("queue"), Fifo)
    assert repr(load_policy("agnostic(fifo)")) == "agnostic(fifo)"
    assert {"queue", "fifo"} <= catalog().keys()
    assert not {"broken", "number"} & catalog().keys()
    with pytest.raises(PolicyError, match=r"entry point broken = .*:Nothing: cannot be loaded: AttributeError"):
        load_policy("agnostic(broken)")
    with pytest.raises(PolicyError, match=r"entry point number .* it is a str, not a policy"):
        load_policy("number")
