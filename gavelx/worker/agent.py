"""What an agent says to the scheduler and does for it: messages in, messages out, no socket.

A lease may run until the sending time of the last heartbeat that the scheduler answered, plus what the answer
allows, all on this machine's own clock: clocks are never compared, and a late message prolongs nothing.
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
"""After so long without acknowledgement a report is sent again on the same stream."""
TAIL_S = 0.3
"""How often a log that is followed is looked at."""
LEAVE_S = 10.0
"""Beyond the grace time, how long an agent that leaves waits for the scheduler to hear of it."""
SILENCE_S = 10.0
"""How long a scheduler that answers no heartbeat is waited for, at least."""


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
        """Leases that were to be stopped before we heard of them: a launch that was overtaken comes too late."""
        self._sent_s: dict[str, float] = {}
        """When each report was sent last on this stream."""
        self._renewed_s = -math.inf
        """Sending time of the last heartbeat that was answered."""
        self._beat_at_s = math.inf
        self._heard_s = -math.inf
        self._tails: dict[str, Tail] = {}
        self._leave_s = math.inf
        self._leave_by_s = math.inf

    # -- a stream begins --

    def hello(self) -> wire.FromAgent:
        """The first message of every stream: who we are, and what runs here."""
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

    # -- what the scheduler says --

    def receive(self, message: wire.ToAgent) -> None:
        """Do what one message asks for."""
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
        """Prolong what stands, and stop what does not, unless it was launched after this answer was written."""
        if not self._renewed_s <= renewed.sent_s <= self.runner.now_s():
            return  # late, or not from our clock
        self._renewed_s = renewed.sent_s
        self.runner.log_mark = renewed.log_mark or self.runner.log_mark
        standing = set(renewed.lease_ids)
        for lease_id in list(self.runner.standing()):
            if lease_id in standing:
                self.runner.renew(lease_id, renewed.sent_s + renewed.valid_for_s)
            elif renewed.sent_s > self._launched_s.get(lease_id, -math.inf):
                self.runner.stop(lease_id, "its lease was given up")

    def _launch(self, launch: wire.Launch) -> None:
        """Run it, or refuse what can never run here; what cannot be now is ignored, and will be sent again."""
        if (known := self.runner.job_of(launch.lease_id)) is not None:
            self._launch_again(launch, known)
            return
        now_s, until_s = self.runner.now_s(), launch.sent_s + launch.valid_for_s
        if launch.lease_id in self._never:
            return
        if self.leaving or not self.runner.ready or not launch.sent_s <= now_s < until_s - self.runner.grace_s:
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
        """It is here, or was, and what became of it is said once more; or the number is another job's."""
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
        """What is not here needs no stopping, and will not be: the scheduler need not wait for it."""
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

    # -- what we say --

    def due(self) -> list[wire.FromAgent]:
        """Everything that is to be sent now."""
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
            parts += tail.parts(self.runner.leases_of(tail.request.job_id))
            if tail.ended:
                del self._tails[request_id]
        return parts

    def wait_s(self) -> float:
        """How long nothing has to be sent, unless a message comes in."""
        if any(not tail.request.follow and tail.room > 0 for tail in self._tails.values()):
            return 0.0
        wait_s = max(0.0, min(self._beat_at_s, self.runner.poll_at_s()) - self.runner.now_s())
        return min(wait_s, TAIL_S) if self._tails else wait_s

    @property
    def welcomed(self) -> bool:
        return self._beat_at_s < math.inf

    @property
    def silent(self) -> bool:
        """The scheduler has not said a word for so long that another stream may do better."""
        return self.runner.now_s() - self._heard_s > max(SILENCE_S, 4 * self.heartbeat_s)

    # -- leaving --

    def leave(self) -> None:
        """Stop everything softly, and take nothing new; the scheduler hears that first, or it would send more.

        Said again, on each stream, it changes nothing: what is waited for is waited for once.
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
        """Nothing runs here any more, and the scheduler knows all of it; or it cannot be told now."""
        if not self.leaving:
            return False
        told = self._renewed_s >= self._leave_s or not self.welcomed
        all_told = told and not self.runner.standing() and not self.runner.ended()
        return all_told or self.runner.now_s() >= self._leave_by_s
