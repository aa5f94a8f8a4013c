"""The interface for training scripts: a PyTorch loop that can be stopped and moved at any step.

    from gavelx.training import Training

    with Training(model=model, optimizer=optimizer, total_steps=10_000) as training:
        for images, labels in training.batches(loader):
            ...                                     # a step as ever
            training.done(loss=loss)

``docs/training.md`` is the user's guide. The files: `training` (the loop), `between` (what happens between two
steps), `votes` (of all processes, on that), `saving` and `checkpoints` (crash-safe files), `position` (in the
data), `randomness` (the state of random generators), `launch`, `lease` and `reports` (what the agent says, and is
told), `gang` (several processes). ARCHITECTURE.md lists those of elastic jobs. It needs torch, and of gavelx only
its errors.
"""

from gavelx.training import versions
from gavelx.training.checkpoints import CheckpointError, TrainingWarning
from gavelx.training.contexts import seed_all
from gavelx.training.gang import Gang, own_device
from gavelx.training.training import Training

versions.check()

__all__ = ["CheckpointError", "Gang", "Training", "TrainingWarning", "own_device", "seed_all"]
