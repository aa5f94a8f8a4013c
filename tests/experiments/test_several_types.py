"""What jobs on several types at once gain, exactly and in rounds."""

import pytest

from experiments.several_types import drawn, exactly_s, in_rounds_s, main
from gavelx.policies import load_policy


def test_whole_devices_are_carried_out_almost_exactly_and_mixes_help(capsys: pytest.CaptureFixture[str]) -> None:
    policy = load_policy("elastic(fifo)")
    without, with_ = (
        [each(policy, *drawn(1, mixed=mixed)) for each in (exactly_s, in_rounds_s)] for mixed in (False, True)
    )
    assert max(with_) < min(without)
    assert with_[1] == pytest.approx(with_[0], rel=0.02)
    assert main(["--draws", "1", "--policy", "elastic(fifo)"]) == 0
    assert "| mean |" in capsys.readouterr().out
