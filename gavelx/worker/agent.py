"""The logic of an agent: messages in, messages out, no socket.

A lease may run until the sending time of the last answered heartbeat plus the time that the answer allows, on this
machine's own clock: clocks are never compared, and a late message extends no lease.
"""

import logging
import math
import uuid
from collections import deque

from gavelx import __version__
from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.devices import Devices
from gavelx.worker.logs import Tail
from gavelx.worker.running import CannotRunError, Runner, job_in

log = logging.getLogger("gavelx.worker")
WIRE_VERSION = 1
RESEND_S = 10.0
"""Seconds after which a report without acknowledgement is sent again on the same stream."""
TAIL_S = 0.3
"""Seconds between reads of a log that is followed."""
LEAVE_S = 10.0
"""Seconds, beyond the grace time, that a leaving agent waits for the scheduler's acknowledgement."""
SILENCE_S = 10.0
"""Least seconds without an answer to a heartbeat, before the agent opens another stream."""


class Agent:
    """One server of the cluster, as the scheduler sees it."""

    def __init__(self, name: str, address: str, devices: Devices, runner: Runner) -> None:
        self.name, self.address, self.devices, self.runner = name, address, devices, runner
        self.id = uuid.uuid4().hex
        self.leaving = False
        self.server_id: int | None = None
        self.heartbeat_s = 1.0
        self._outbox: deque[wire.FromAgent] = deque()
        self._launched_s: dict[int, float] = {}
        """Sending time of the heartbeat that each launch answers."""
        self._never: set[int] = set()
        """Leases with a Stop before their Launch: the Launch was overtaken, and must be ignored."""
        self._sent_s: dict[str, float] = {}
        """Time at which each report was last sent on this stream."""
        self._renewed_s = -math.inf
        """Sending time of the last heartbeat that was answered."""
        self._beat_at_s = math.inf
        self._heard_s = -math.inf
        self._tails: dict[str, Tail] = {}
        self._leave_s = math.inf
        self._leave_by_s = math.inf

    # -- a stream begins --

    def hello(self) -> wire.FromAgent:
        """The first message of every stream: the agent's identity, and the leases that run here."""
        self._outbox.clear()
        self._sent_s.clear()
        self._never.clear()
        self._tails.clear()
        self._beat_at_s = math.inf
        self._heard_s = self.runner.now_s()
        self.runner.poll()
        return wire.FromAgent(
            hello=wire.Hello(
                version=WIRE_VERSION,
                name=self.name,
                address=self.address,
                accelerator=self.devices.accelerator,
                devices=len(self.devices.ids),
                boot_id=self.runner.boot_id,
                leases=self.runner.reports(),
                agent_version=__version__,
                log_mark=self.runner.log_mark,
                agent_id=self.id,
            )
        )

    # -- messages of the scheduler --

    def receive(self, message: wire.ToAgent) -> None:
        """Handle one message."""
        self._heard_s = self.runner.now_s()
        match message.WhichOneof("message"):
            case "welcome":
                self._welcome(message.welcome)
            case "renewed":
                self._renew(message.renewed)
            case "launch":
                self._launch(message.launch)
            case "stop":
                self._stop(message.stop)
            case "acknowledged":
                self._sent_s.pop(message.acknowledged.report_id, None)
                self.runner.acknowledge(message.acknowledged.report_id)
            case "send_log":
                self._send_log(message.send_log)

    def _welcome(self, welcome: wire.Welcome) -> None:
        self.server_id = welcome.server_id
        self.heartbeat_s = welcome.heartbeat_s or self.heartbeat_s
        self.runner.grace_s = welcome.grace_s or self.runner.grace_s
        self.runner.log_bytes = welcome.log_bytes or self.runner.log_bytes
        self._beat_at_s = self.runner.now_s()
        self.runner.belong_to(welcome.log_id)
        log.info("%s is server %d of the scheduler", self.name, self.server_id)

    def _renew(self, renewed: wire.Renewed) -> None:
        """Extend the leases that stand; stop the others, except those launched after this answer was written."""
        if not self._renewed_s <= renewed.sent_s <= self.runner.now_s():
            return  # late, or not from our clock
        self._renewed_s = renewed.sent_s
        self.runner.log_mark = renewed.log_mark or self.runner.log_mark
        standing = set(renewed.lease_ids)
        for lease_id in list(self.runner.standing()):
            if lease_id in standing:
                self.runner.renew(lease_id, renewed.sent_s + renewed.valid_for_s)
            elif self.runner.continued_by(lease_id) in standing:
                self.runner.go_over(lease_id)
            elif renewed.sent_s > self._launched_s.get(lease_id, -math.inf):
                self.runner.stop(lease_id, "its lease was given up")

    def _launch(self, launch: wire.Launch) -> None:
        """Start a lease, or refuse one that can never run here; one that cannot start now is sent again later."""
        if (known := self.runner.job_of(launch.lease_id)) is not None:
            self._launch_again(launch, known)
            return
        now_s, until_s = self.runner.now_s(), launch.sent_s + launch.valid_for_s
        if launch.lease_id in self._never:
            return
        if self.leaving or not self.runner.ready or not launch.sent_s <= now_s < until_s - self.runner.grace_s:
            return
        if launch.HasField("continues"):
            self.runner.resize(launch)
            if launch.slots:
                self._launched_s[launch.lease_id] = launch.sent_s
            return
        try:
            if not launch.slots or max(launch.slots) >= len(self.devices.ids):
                raise CannotRunError(f"devices {list(launch.slots)} of a server that has {len(self.devices.ids)}")
            self.runner.start(launch, until_s)
            self._launched_s[launch.lease_id] = launch.sent_s
            log.info("%s: lease %d runs job %d", self.name, launch.lease_id, launch.job_id)
        except CannotRunError as error:
            self._refuse(launch, str(error))

    def _launch_again(self, launch: wire.Launch, known: tuple[int, str]) -> None:
        """Handle a repeated launch: report its outcome again, or refuse it if the number is another job's."""
        if known == job_in(launch):
            self.runner.tell_again(launch.lease_id)
            return
        reason = f"lease {launch.lease_id} is of job {known[0]} here: the scheduler's log is an older copy"
        log.warning("%s: job %d is refused: %s", self.name, launch.job_id, reason)
        self._refuse(launch, reason, of_another_job=True)

    def _refuse(self, launch: wire.Launch, reason: str, *, of_another_job: bool = False) -> None:
        refused = wire.Refused(lease_id=launch.lease_id, job_id=launch.job_id, reason=reason)
        refused.of_another_job = of_another_job
        self._outbox.append(wire.FromAgent(refused=refused))

    def _stop(self, stop: wire.Stop) -> None:
        """Stop a lease; if it is not here, refuse it, so that the scheduler does not wait."""
        if stop.lease_id in self.runner.standing():
            self.runner.stop(stop.lease_id, stop.reason or "the scheduler asked for it")
        elif self.runner.job_of(stop.lease_id) is not None:
            self.runner.tell_again(stop.lease_id)
        else:
            self._never.add(stop.lease_id)
            refused = wire.Refused(lease_id=stop.lease_id, reason="it is not here")
            self._outbox.append(wire.FromAgent(refused=refused))

    def _send_log(self, request: wire.SendLog) -> None:
        if request.end:
            self._tails.pop(request.request_id, None)
        elif request.more:
            if (tail := self._tails.get(request.request_id)) is not None:
                tail.room += request.more
        else:
            self._tails[request.request_id] = Tail(request, self.name)

    # -- messages to the scheduler --

    def due(self) -> list[wire.FromAgent]:
        """The messages to send now."""
        self.runner.poll()
        now_s = self.runner.now_s()
        messages = [*self._outbox]
        self._outbox.clear()
        if not self.welcomed:
            return messages
        for ended in self.runner.ended():
            if now_s - self._sent_s.get(ended.report_id, -math.inf) >= RESEND_S:
                if ended.report_id not in self._sent_s:
                    log.info("%s: lease %d of job %d: %s", self.name, ended.lease_id, ended.job_id, ended.reason)
                self._sent_s[ended.report_id] = now_s
                self._launched_s.pop(ended.lease_id, None)
                messages.append(wire.FromAgent(ended=ended))
        if now_s >= self._beat_at_s:
            self._beat_at_s = now_s + self.heartbeat_s
            beat = wire.Heartbeat(sent_s=now_s, leases=self.runner.reports(), leaving=self.leaving)
            messages.append(wire.FromAgent(heartbeat=beat))
        return messages + self._log_parts()

    def _log_parts(self) -> list[wire.FromAgent]:
        parts: list[wire.FromAgent] = []
        for request_id, tail in list(self._tails.items()):
            parts += tail.parts(self.runner.leases_of(tail.request.job_id), self.runner.removed)
            if tail.ended:
                del self._tails[request_id]
        return parts

    def wait_s(self) -> float:
        """Seconds until the next message is due, if none comes in."""
        if any(not tail.request.follow and tail.room > 0 for tail in self._tails.values()):
            return 0.0
        wait_s = max(0.0, min(self._beat_at_s, self.runner.poll_at_s()) - self.runner.now_s())
        return min(wait_s, TAIL_S) if self._tails else wait_s

    @property
    def welcomed(self) -> bool:
        return self._beat_at_s < math.inf

    @property
    def silent(self) -> bool:
        """Whether the scheduler has been silent for so long that another stream is worth a try."""
        return self.runner.now_s() - self._heard_s > max(SILENCE_S, 4 * self.heartbeat_s)

    # -- leaving --

    def leave(self) -> None:
        """Stop every lease with a checkpoint and take no new ones; the scheduler is told first, to send no more.

        Repeated calls, one for each stream, have no further effect.
        """
        if self.leaving:
            return
        self.leaving = True
        self._leave_s = self.runner.now_s()
        if self.welcomed:
            beat = wire.Heartbeat(sent_s=self.runner.now_s(), leases=self.runner.reports(), leaving=True)
            self._outbox.append(wire.FromAgent(heartbeat=beat))
        self._leave_by_s = self.runner.now_s() + self.runner.grace_s + LEAVE_S
        for lease_id in list(self.runner.standing()):
            self.runner.stop(lease_id, "its server is leaving")

    @property
    def left(self) -> bool:
        """Whether no lease runs here and the scheduler has every report, or cannot be reached now."""
        if not self.leaving:
            return False
        told = self._renewed_s >= self._leave_s or not self.welcomed
        all_told = told and not self.runner.standing() and not self.runner.ended()
        return all_told or self.runner.now_s() >= self._leave_by_s
