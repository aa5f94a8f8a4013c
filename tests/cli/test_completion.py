"""What <tab> offers."""

from gavelx.cli import completion


def test_a_policy_goes_on_wherever_it_begins() -> None:
    assert completion.policies("max_min") == ["max_min_fairness"]
    assert completion.policies("fifo,agnostic(max_min") == ["fifo,agnostic(max_min_fairness"]
    assert completion.policies("hier") == ["hierarchical("]
    assert "fifo" in completion.policies("")
    assert completion.policies("nothing_like_it") == []


def test_traces_and_pages() -> None:
    assert completion.traces("gavel_msr_e") == ["gavel_msr_e13805"]
    assert completion.pages("write") == ["write_a_policy"]
