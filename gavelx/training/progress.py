"""How far a training is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Progress:
    """Steps, and the position in the data.

    ``step`` counts the steps as submitted since the job began. ``batch`` batches of this epoch were handed out in
    a rigid job, ``seen`` samples of it are done in an elastic one, ``samples`` since that job began.
    """

    step: float = 0
    saved_steps: float = 0
    epoch: int = 0
    batch: int = 0
    seen: int = 0
    samples: int = 0

    def next_epoch(self) -> None:
        self.epoch += 1
        self.batch = self.seen = 0

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Words that an older checkpoint lacks are 0."""
        for name in asdict(self):
            setattr(self, name, state.get(name, 0))
