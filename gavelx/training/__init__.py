"""What a training script imports: a plain PyTorch loop becomes one that can be stopped and moved at any step.

    from gavelx.training import Training

    with Training(model=model, optimizer=optimizer, total_steps=10_000) as training:
        for images, labels in training.batches(loader):
            ...                                     # a step as ever
            training.done(loss=loss)

``docs/training.md`` is the user's page. One idea a file: `training` (the loop), `checkpoints` (a folder of files
that no crash can spoil), `position` (where in the data), `randomness` (every source of chance), `lease` (how
long we may run), `reports` (what the agent learns), `gang` (several processes). Needs torch, and nothing else of
gavelx than its errors.
"""

from gavelx.training.checkpoints import CheckpointError, TrainingWarning
from gavelx.training.gang import Gang, own_device
from gavelx.training.training import Training

__all__ = ["CheckpointError", "Gang", "Training", "TrainingWarning", "own_device"]
