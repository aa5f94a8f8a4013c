"""Runs leases as real processes, each below a shim that outlives the agent.

The whole state is in the agent's folder, so an agent that was killed continues after a restart.
"""

import contextlib
import hashlib
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import training_message
from gavelx.worker.cgroups import writable_cgroup
from gavelx.worker.devices import Devices
from gavelx.worker.kept_output import KEEP, KeepOutput, KeptOutput
from gavelx.worker.logs import segments_of
from gavelx.worker.outcome import Outcome, Said, never_began, outcome
from gavelx.worker.running import CannotRunError, job_in
from gavelx.worker.running_job import Running
from gavelx.worker.shim import boot_id, kill, kill_cgroup, marked, open_file, remove_cgroup, start_ticks
from gavelx.worker.silence import LOOK_S, Silence
from gavelx.worker.sizes import Size, environment_of
from gavelx.worker.state import Folder, LeaseFolder
from gavelx.worker.surroundings import passed_on, visible
from gavelx.worker.usage import Measured, Meter

log = logging.getLogger("gavelx.worker")
SHIM_FILE = Path(__file__).with_name("shim.py")
POLL_S = 0.2
STUCK_S = 0.5
"""Seconds after its end at which a lease's shim counts as stuck, and the agent kills the lease itself."""
LAST_BYTES = 4096
"""Bytes of output in which the last line is looked for."""
PAUSE_S = 2.0
"""Seconds without new launches after one that failed by our own fault, such as a full disk."""
JOB_FOLDER = re.compile(r"([0-9a-z][0-9a-z-]{0,63})?")
Json = dict[str, Any]


class ProcessRunner:
    """The `Runner` of real machines. Checkpoints go to ``shared``/jobs/FOLDER, one folder for each job.

    Processes start there too, unless ``run_in`` names another folder. ``keep`` limits the output of ended leases.
    """

    def __init__(
        self,
        folder: Folder,
        shared: Path,
        devices: Devices,
        grace_s: float = 15.0,
        run_in: Path | None = None,
        *,
        keep: KeepOutput = KEEP,
    ) -> None:
        self.folder, self.shared, self.devices = folder, shared.absolute(), devices
        self.run_in = run_in
        self.boot_id = folder.boot_id
        self.grace_s = grace_s
        self.log_bytes = 16 << 20
        self._cgroups = writable_cgroup()
        self._running: dict[int, Running] = {}
        self._ended: dict[str, wire.Ended] = {}
        self._leases_of: dict[int, list[int]] = {}
        """The leases of each job, oldest first."""
        self._job_of: dict[int, tuple[int, str]] = {}
        """The job of each lease, and its folder."""
        self.log_mark = ""
        self._moving_to = ""
        """The log to belong to as soon as no lease of another log runs."""
        self._ready_at_s = -math.inf
        self._meter = Meter(self.measured)
        self._find_again()
        self._kept = KeptOutput(folder, keep)
        self._prune()

    @property
    def ready(self) -> bool:
        if self.now_s() < self._ready_at_s:
            return False
        return not self._moving_to  # jobs of another scheduler still end

    def now_s(self) -> float:
        return time.monotonic()

    # -- leases from before a restart --

    def _find_again(self) -> None:
        """Restore the state of an earlier run of the agent: running leases, and unacknowledged reports.

        What a job wrote over the files of its lease stops no agent: that lease is over.
        """
        for folder in self.folder.all():
            try:
                keep = self._find(folder)
            except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
                log.warning("lease %d is over: its files were written by another (%r)", folder.lease_id, error)
                keep = False
            if not keep:
                shutil.rmtree(folder.path, ignore_errors=True)
        self._kill_strangers()

    def _find(self, folder: LeaseFolder) -> bool:
        """Take up a lease where it is; False if nothing is left of it."""
        ended, launch = folder.ended(), folder.launch()
        if launch is not None:
            if self._is_left_over(folder, launch):
                return False
            job, self.log_mark = self._job_in(launch), launch.get("log_mark") or self.log_mark
            self._leases_of.setdefault(job[0], []).append(folder.lease_id)
            self._job_of[folder.lease_id] = job
        if ended is not None:
            self._ended[ended["report_id"]] = wire.Ended(**ended)
        elif launch is None:  # killed before it was written: nothing was started
            return False
        elif folder.acknowledged() is None and "continues" not in launch:
            running = self._as_it_was(folder, launch)
            self._running |= dict.fromkeys(running.lease_ids, running)
        return True

    @staticmethod
    def _job_in(launch: Json) -> tuple[int, str]:
        """The job that a lease was launched for, and the name of its folder."""
        return int(launch["job_id"]), Path(launch["job_folder"]).name

    def _is_left_over(self, folder: LeaseFolder, launch: Json) -> bool:
        """Whether the agent was killed while it wrote that the job of another lease is to go over to this one."""
        if "continues" not in launch or folder.ended() is not None or folder.acknowledged() is not None:
            return False
        return folder.lease_id not in self._running

    @staticmethod
    def _as_it_was(folder: LeaseFolder, launch: Json) -> Running:
        lease, sizes = folder.lease() or {}, folder.sizes() or {}
        running = Running(
            folder,
            launch,
            until_s=float(lease.get("until_monotonic_s") or launch["until_monotonic_s"]),
            now=Size.from_json(sizes.get("now") or launch.get("size") or {}, launch),
            next=Size.from_json(sizes["next"], launch) if sizes.get("next") else None,
            handed_s=sizes.get("handed_s"),
            handed_steps=sizes.get("handed_steps", 0.0),
            stop=str(lease.get("reason", "")),
            is_hung=lease.get("hung") is True,
        )
        if sizes:
            folder.write_lease(running.lease())
        return running

    def _kill_strangers(self) -> None:
        """Kill processes of unknown leases of this folder."""
        known = {self._mark(running.folder) for running in self._running.values()}
        prefix = f"GAVELX_LEASE_FILE={self.folder.leases}/".encode()
        for pid, mark in marked(prefix):
            if mark not in known:
                kill(pid)

    @staticmethod
    def _mark(folder: LeaseFolder) -> bytes:
        """A text in the environment of every process of a lease."""
        return f"GAVELX_LEASE_FILE={folder.lease_file}".encode()

    # -- starting --

    def belong_to(self, log_id: str) -> None:
        if not log_id or log_id == self.folder.log_id:
            return
        if not self.folder.log_id:
            self.folder.belong_to(log_id)
            return
        self._moving_to = log_id
        for lease_id in self._running:
            self.stop(lease_id, "its scheduler has been replaced by another one")
        self._move()

    def _move(self) -> None:
        """Forget the leases of another scheduler, once none of them runs."""
        if self._moving_to and not self._running:
            for folder in self.folder.all():
                shutil.rmtree(folder.path, ignore_errors=True)
            self._kept.clear()
            self._kept.forget_notes()
            self._ended.clear()
            self._leases_of.clear()
            self._job_of.clear()
            self.log_mark = ""
            self.folder.belong_to(self._moving_to)
            self._moving_to = ""

    def start(self, launch: wire.Launch, until_s: float) -> None:
        if not launch.command:
            raise CannotRunError("it has no command")
        if not launch.processes:
            raise CannotRunError("it has no process")
        if not JOB_FOLDER.fullmatch(launch.folder):
            raise CannotRunError(f"its folder is {launch.folder[:80]!r}")
        size = Size.of(launch, self.devices.of(launch.slots), self.now_s())
        order = self._order(launch, size, until_s)
        folder = self.folder.lease(launch.lease_id)
        self._note(launch)
        try:
            self.folder.create(launch.lease_id)
            folder.write_launch(order)
            running = Running(folder, order, until_s, size)
            folder.write_lease(running.lease())
            running.shim = self._start_shim(folder)
        except OSError as error:
            shutil.rmtree(folder.path, ignore_errors=True)
            self._ready_at_s = self.now_s() + PAUSE_S
            reason = f"this server cannot start it: {error.strerror}"
            self._keep(folder, order, Outcome(launch.saved_steps, False, False, 0, reason), 0.0)
            return
        self._running[launch.lease_id] = running

    def _note(self, launch: wire.Launch) -> None:
        self._leases_of.setdefault(launch.job_id, []).append(launch.lease_id)
        self._job_of[launch.lease_id] = job_in(launch)
        self.log_mark = launch.log_mark or self.log_mark

    def resize(self, launch: wire.Launch) -> None:
        running = self._running.get(launch.continues)
        if running is None or running.stop or running.next is not None:
            return
        size = Size.of(launch, self.devices.of(launch.slots), self.now_s())
        environment = self._environment(launch, size)
        joiners = [
            {"rank": number, "environment": environment | environment_of(launch, size, number, joins=True)}
            for number in size.numbers
            if number not in running.now.numbers
        ]
        folder = self.folder.lease(launch.lease_id)
        try:
            if size.slots:
                self.folder.create(launch.lease_id)
                folder.write_launch({**running.launch, "lease_id": launch.lease_id, "continues": launch.continues})
            running.next = size
            running.save(joiners)
        except OSError:  # the scheduler says it again
            running.next = None
            shutil.rmtree(folder.path, ignore_errors=True)
            return
        running.folder.write_lease(running.lease())
        if size.slots:
            self._note(launch)
            self._running[launch.lease_id] = running

    def continued_by(self, lease_id: int) -> int | None:
        running = self._running.get(lease_id)
        if running is None or running.next is None or running.now.lease_id != lease_id:
            return None
        return running.next.lease_id

    def go_over(self, lease_id: int) -> None:
        running = self._running.pop(lease_id)
        assert running.next is not None, "it is continued"
        handed_s = self.now_s() if running.handed_s is None else running.handed_s
        running.now, running.next, running.handed_s = replace(running.next, since_s=handed_s), None, None
        with contextlib.suppress(OSError):  # else a restarted agent hears of it again
            running.save()

    def _environment(self, launch: wire.Launch, size: Size) -> dict[str, str]:
        """What all processes of a lease on this server are told."""
        return {
            "GAVELX_LEASE_ID": str(launch.lease_id),
            "WORLD_SIZE": str(launch.world_size or launch.processes),
            "LOCAL_WORLD_SIZE": str(launch.processes),
            "MASTER_ADDR": launch.master_address or "127.0.0.1",
            "MASTER_PORT": str(launch.master_port),
            **visible(size.devices),
        }

    def _order(self, launch: wire.Launch, size: Size, until_s: float) -> Json:
        """The launch file: the input of the shim, and of the agent after a restart."""
        folder = self.folder.lease(launch.lease_id)
        job_folder = self.shared / "jobs" / job_in(launch)[1]
        inherited = passed_on(os.environ)
        ours = {
            "GAVELX_JOB_ID": str(launch.job_id),
            "GAVELX_JOB_DIR": str(job_folder),
            "GAVELX_LEASE_FILE": str(folder.lease_file),
            "GAVELX_REPORT_FILE": str(folder.report_file),
            **self._environment(launch, size),
        }
        until_step = launch.until_step if math.isfinite(launch.until_step) else None
        if until_step is not None:  # else the script knows, or it is not known
            ours["GAVELX_TOTAL_STEPS"] = f"{until_step:.15g}"
        joins = launch.size.generation > 0
        name = hashlib.sha256(str(folder.path).encode()).hexdigest()[:16]
        return {
            "lease_id": launch.lease_id,
            "job_id": launch.job_id,
            "owner": launch.owner,
            "boot_id": boot_id(),
            "started_s": self.now_s(),
            "until_monotonic_s": until_s,
            "until_step": until_step,
            "valid_for_s": launch.valid_for_s,
            "restart_if_silent_s": launch.restart_if_silent_s,
            "saved_steps": launch.saved_steps,
            "log_mark": launch.log_mark,
            "grace_s": self.grace_s,
            "log_bytes": self.log_bytes,
            "size": size.to_json(),
            "elastic": bool(launch.elasticity),
            "generation": launch.size.generation,
            "cgroup": str(self._cgroups / f"gavelx-{name}") if self._cgroups else None,
            "job_folder": str(job_folder),
            "run_in": str(self.run_in or job_folder),
            "command": list(launch.command),
            "environment": {"PYTHONUNBUFFERED": "1"} | inherited | dict(launch.environment) | ours,
            "processes": [
                {"rank": number, "environment": environment_of(launch, size, number, joins=joins)}
                for number in size.numbers
            ],
        }

    @staticmethod
    def _start_shim(folder: LeaseFolder) -> subprocess.Popen[bytes]:
        lock = folder.lock_for_shim()
        try:
            with (folder.path / "shim.log").open("ab") as log:
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", str(SHIM_FILE), str(folder.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[lock],
                    cwd="/",
                )
        finally:
            os.close(lock)

    # -- while it runs --

    def job_of(self, lease_id: int) -> tuple[int, str] | None:
        return None if self._moving_to else self._job_of.get(lease_id)

    def standing(self) -> Collection[int]:
        return self._running.keys()

    def renew(self, lease_id: int, until_s: float) -> None:
        running = self._running[lease_id]
        if until_s > running.until_s:
            running.until_s = until_s
            running.folder.write_lease(running.lease())

    def stop(self, lease_id: int, reason: str) -> None:
        running = self._running[lease_id]
        if not running.stop:
            running.stop = reason
            running.folder.write_lease(running.lease())

    def _all(self) -> list[Running]:
        """Each once, also where it has two leases."""
        return list(dict.fromkeys(self._running.values()))

    def reports(self) -> list[wire.LeaseReport]:
        return [report for running in self._all() for report in self._reports(running)]

    def _reports(self, running: Running) -> list[wire.LeaseReport]:
        """On its lease, and on the one to which it goes over."""
        saved = float(running.launch["saved_steps"])
        said, size = self._said(running), running.next
        use, now_s = self._meter.of(running.now.lease_id), self.now_s()
        held_s, next_held_s = self._held_s(running, now_s)
        report = wire.LeaseReport(
            lease_id=running.now.lease_id,
            job_id=running.launch["job_id"],
            steps_done=max(saved, said.steps_done),
            saved_steps=max(saved, said.saved_steps),
            held_s=held_s,
            steps_per_s=running.pace(now_s, max(saved, said.steps_done)),
            memory_bytes=use.memory_bytes,
            device_use=use.device_use,
            total_steps=said.total_steps,
            sizes=said.sizes,
            next_id=None if size is None else size.lease_id,
            leaving=running.leaving,
            training=training_message(said.training, said.bits),
        )
        if running.silence is not None and running.silence.is_long:
            report.silent_s, report.usual_step_s = running.silence.for_s, running.silence.usual_s
        if size is None or not size.slots:
            return [report]
        after = wire.LeaseReport()
        after.CopyFrom(report)
        after.lease_id, after.held_s, after.leaving = size.lease_id, next_held_s, 0
        after.ClearField("next_id")
        if running.handed_s is not None:
            after.handover.before_id, after.handover.steps_done = running.now.lease_id, running.handed_steps
            after.handover.held_s, after.handover.warm_s = held_s, max(0.0, running.handed_s - size.since_s)
        return [report, after]

    @staticmethod
    def _said(running: Running) -> Said:
        """How far the job is by its own report, else by what it prints, of which nothing is known to be saved."""
        if (said := Said.of(running.report())) is not None:
            return said
        printed, until_step = running.printed.progress(), running.launch["until_step"]
        if until_step is not None and (printed.total not in (0.0, until_step) or printed.steps > until_step):
            return Said()  # it counts something else than its user does
        return Said(printed.steps, 0.0, False, printed.total)

    def measured(self) -> Mapping[int, Measured]:
        """The running leases, for measurements of their usage."""
        found = {}
        for running in self._all():
            pid = (running.folder.shim() or {}).get("pid")
            if isinstance(pid, int):  # a job may have written something else there
                devices, slots = tuple(running.devices), max(running.now.slots, len(running.devices))
                found[running.now.lease_id] = Measured(pid, devices, slots)
        return found

    @staticmethod
    def _held_s(running: Running, until_s: float) -> tuple[float, float]:
        """Seconds of its lease, and of the next one; unknown for one from before a restart of the machine."""
        if running.launch["boot_id"] != boot_id():
            return 0.0, 0.0
        handed_s = until_s if running.handed_s is None else min(running.handed_s, until_s)
        return max(0.0, handed_s - running.now.since_s), until_s - handed_s

    # -- ends of leases --

    def poll_at_s(self) -> float:
        return self.now_s() + POLL_S if self._running else math.inf

    def poll(self) -> None:
        for running in self._all():
            self._hear_of_the_next_size(running)
            self._hurry_if_complete(running)
            self._look_for_steps(running)
            if not running.shim_lives():
                self._finish(running)
            elif self.now_s() >= running.until_s + STUCK_S:
                self._nothing_left(running)
        self._move()

    def _hear_of_the_next_size(self, running: Running) -> None:
        """Rank 0 has gone over, if it says so."""
        if running.next is None or running.handed_s is not None or (report := running.report()) is None:
            return
        if (report["lease_id"], report.get("generation")) != (
            running.next.lease_id,
            running.next.words["generation"],
        ):
            return
        running.handed_s, running.handed_steps = self.now_s(), self._said(running).steps_done
        with contextlib.suppress(OSError):  # else a restarted agent hears of it again
            running.save()

    def _hurry_if_complete(self, running: Running) -> None:
        """Stop a job that has done all of its steps and does not exit."""
        said = Said.of(running.report())
        if said is None or not said.complete:
            return
        running.complete_s = min(running.complete_s, self.now_s())
        if self.now_s() >= running.complete_s + self.grace_s:
            self.stop(running.now.lease_id, "it is complete and did not exit")

    def _look_for_steps(self, running: Running) -> None:
        """Notice that rank 0, if it is here, makes no step any more; stop the job if its user wants that."""
        now_s, silence = self.now_s(), running.silence
        if (silence is not None and now_s < silence.at_s + LOOK_S) or not running.has_first_rank:
            return
        said, launch = self._said(running), running.launch
        if silence is None:
            done = said.steps_done - float(launch["saved_steps"])
            found = running.shim is None and done > 0.0  # by an agent that was started again
            usual_s = self._held_s(running, now_s)[0] / done if found else 0.0
            running.silence = Silence(said.steps_done, said.saved_steps, now_s, usual_s)
            return
        last = launch["until_step"] or said.total_steps or math.inf
        is_busy = said.complete or said.steps_done >= last or running.next is not None or bool(running.stop)
        was_long = silence.is_long
        silence.look(now_s, said.steps_done, said.saved_steps, saving=said.saving, busy=is_busy)
        if silence.is_long and not was_long:
            log.warning("lease %d of job %d: %s", running.now.lease_id, launch["job_id"], silence.words())
        most_s = launch.get("restart_if_silent_s") or math.inf
        if silence.is_known and silence.for_s >= most_s and not running.stop:
            running.is_hung = True
            self.stop(running.now.lease_id, silence.words())

    def _finish(self, running: Running) -> None:
        exit = None if running.shim_was_killed else running.folder.exit()
        if (exit is None or running.shim is None) and not self._nothing_left(running):
            return  # killed now; gone when we look again
        ended_s = min(exit["ended_s"], self.now_s()) if exit else self.now_s()
        began = running.began
        if never_began(exit, began=began):
            self._ready_at_s = self.now_s() + PAUSE_S
        words, leaving = last_words(running.folder, exit), running.was_leaving(ended_s)
        report, printed = running.report(), running.printed.progress().steps
        result = outcome(
            running.launch,
            exit,
            report,
            words,
            began=began,
            leaving=leaving,
            printed=printed,
            hung=running.stop if running.is_hung else "",
        )
        self._keep_all(running, result, ended_s)
        self._prune()

    def _prune(self) -> None:
        """Remove output that is too old or too much."""
        for lease_id in self._kept.prune({running.launch["job_id"] for running in self._running.values()}):
            job = self._job_of.pop(lease_id, None)
            if job is not None and lease_id in (leases := self._leases_of.get(job[0], [])):
                leases.remove(lease_id)

    def _nothing_left(self, running: Running) -> bool:
        """Kill what is left of a lease whose shim may have been killed, or is stuck; whether nothing is.

        One that ends has no environment any more, and counts until its files, devices among them, are closed too.
        """
        cgroup = Path(running.launch["cgroup"]) if running.launch["cgroup"] else None
        left = [pid for pid, mark in marked(self._mark(running.folder)) if mark == self._mark(running.folder)]
        for pid in left:
            running.killed[pid] = start_ticks(pid)
            kill(pid)
        dying = any(ticks is not None and start_ticks(pid) == ticks for pid, ticks in running.killed.items())
        if kill_cgroup(cgroup) and not left and not dying:
            remove_cgroup(cgroup)
            return True
        return False

    def _keep_all(self, running: Running, result: Outcome, ended_s: float) -> None:
        """Report on its lease and on that to which it went over; if it had not, that one has had no time."""
        of_before = result
        if running.handed_s is not None:
            why = "the job went over to another lease"
            of_before = Outcome(result.steps_done, False, False, 0, why, left=True)
        for lease_id, one, held_s in zip(
            running.lease_ids, (of_before, result), self._held_s(running, ended_s), strict=False
        ):
            del self._running[lease_id]
            self._keep(self.folder.lease(lease_id), running.launch, one, held_s)
        if running.folder.lease_id not in running.lease_ids:  # it has long been over, and is kept for its logs
            running.folder.forget()
            self._kept.add(running.folder.lease_id)

    def _keep(self, folder: LeaseFolder, launch: Json, result: Outcome, held_s: float) -> None:
        """Keep a report until it is acknowledged, on disk if there is room."""
        ended = {
            "report_id": f"{self.folder.identity}.{folder.lease_id}",
            "lease_id": folder.lease_id,
            "job_id": launch["job_id"],
            "steps_done": result.steps_done,
            "held_s": held_s,
            "failed": result.failed,
            "complete": result.complete,
            "exit_code": result.exit_code,
            "reason": result.reason[:1000].encode(errors="replace").decode(),
            "left": result.left,
        }
        with contextlib.suppress(OSError):
            folder.keep_ended(ended)
        self._ended[str(ended["report_id"])] = wire.Ended(**ended)

    def ended(self) -> Collection[wire.Ended]:
        return [] if self._moving_to else list(self._ended.values())

    def acknowledge(self, report_id: str) -> None:
        ended = self._ended.pop(report_id, None)
        if ended is not None:
            self.folder.lease(ended.lease_id).acknowledge()
            self._kept.add(ended.lease_id)

    def tell_again(self, lease_id: int) -> None:
        ended = self.folder.lease(lease_id).acknowledged()
        if ended:
            self._ended[ended["report_id"]] = wire.Ended(**ended)

    def leases_of(self, job_id: int) -> Sequence[Path]:
        return [self.folder.lease(lease_id).path for lease_id in self._leases_of.get(job_id, [])]

    def removed(self, job_id: int) -> str:
        return self._kept.why_removed(job_id)

    def close(self) -> None:
        """Release everything; running leases continue without the agent."""
        for running in self._all():
            if running.shim is not None:
                running.shim.returncode = 0  # we shall not wait for it
        self._meter.close()
        self.folder.close()


def last_words(folder: LeaseFolder, exit: Json | None) -> str:
    """The last line of output of the rank that failed."""
    rank = ((exit or {}).get("failed") or {}).get("rank")
    if rank is None:
        return ""
    tail = b""
    with contextlib.suppress(OSError):  # the job may have deleted it, or put something else there
        for _, path in segments_of(folder.path).get(int(rank), ())[-1:]:
            with open_file(path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
                tail = file.read(LAST_BYTES)
    lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return "".join(c if c.isprintable() else "?" for c in lines[-1])[:200] if lines else ""
