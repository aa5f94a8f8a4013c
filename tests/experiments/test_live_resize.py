"""The job whose batch changes while it runs, and the page about its losses."""

import torch

from experiments.live_resize.loss_job import CLASSES, SAMPLES, data
from experiments.live_resize.losses import EPOCHS, SCHEDULES, plot, report
from gavelx.elastic import Elastic


def test_labels_can_be_learnt_and_some_are_wrong() -> None:
    (x, y), (again, _), (other, _) = data(1), data(1), data(2)
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    counts = torch.bincount(y, minlength=CLASSES)
    assert counts.sum() == SAMPLES
    assert int((counts > 0).sum()) == CLASSES


def test_schedules_change_sizes_that_the_job_permits() -> None:
    elastic = Elastic.of("batch:1-4/32-256")
    for schedule in SCHEDULES.values():
        for change in schedule.changes:
            assert elastic.least <= change.processes <= elastic.most
            assert elastic.batch_least <= change.batch <= elastic.batch_most
            assert 0 < change.epoch < EPOCHS


def test_the_page_compares_seed_by_seed() -> None:
    falling = [[2.0 - 0.1 * epoch + 0.01 * seed for epoch in range(EPOCHS)] for seed in range(2)]
    found = {
        name: [[loss * worse for loss in run] for run in falling]
        for name, worse in zip(SCHEDULES, (1.0, 1.02, 1.01, 1.2), strict=True)
    }
    lines = report(found).splitlines()
    assert "| at once | 0.9140 | -1.0% -1.0% | +1.0% +1.0% |" in lines[4]
    assert "+20.0% +20.0%" in lines[5]
    assert plot(found)[1:4] == b"PNG"
