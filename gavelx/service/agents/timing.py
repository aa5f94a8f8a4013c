"""How long things may take between service and agents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Heartbeats come every ``heartbeat_s``; each renews leases for ``valid_for_s`` from when it was sent.

    A job is asked to stop ``grace_s`` before it is killed. Nothing leased to a server runs any more when it was
    silent for ``surely_over_s`` after its leases ran out: the grace, a clock that is 1 % off, and a second.

    A lease is a measurement of its job's speed if that is steady for ``measured_s``; a long one is another each
    ``measured_again_s``. The new processes of a job that is resized have ``resize_s`` to get ready.
    """

    heartbeat_s: float = 5.0
    valid_for_s: float = 60.0
    grace_s: float = 15.0
    log_bytes: int = 16 * 1024 * 1024
    measured_s: float = 30.0
    measured_again_s: float = 300.0
    resize_s: float = 300.0

    @property
    def surely_over_s(self) -> float:
        return self.grace_s + 0.01 * self.valid_for_s + 1.0

    @property
    def silent_s(self) -> float:
        """An agent that was not heard for so long is not there."""
        return 3.0 * self.heartbeat_s + 1.0
