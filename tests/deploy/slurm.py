"""A Slurm cluster on loopback: a controller, two nodes of two GPUs that are none, and munge between them."""

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from gavelx.rpc.ports import free_port
from tests.waiting import PATIENCE_S, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "sinfo", "squeue")

CONFIG = """
ClusterName=gavelx
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=300
MessageTimeout=100
BatchStartTimeout=300
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
NodeName=n1 NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 Gres=gpu:v100:2 State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 Gres=gpu:v100:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
GRES = """
NodeName=n1 Name=gpu Type=v100 File=/dev/tty[0-1]
NodeName=n2 Name=gpu Type=v100 File=/dev/tty[2-3]
"""


def why_not() -> str:
    """Why no cluster can be had here; nothing if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian: slurm-wlm munge)"
    if os.geteuid() != 0:
        return "slurmd and munged want to be root here"
    lost = [f"/dev/tty{n}" for n in range(4) if not Path(f"/dev/tty{n}").exists()]
    return f"no device files to play GPUs: {', '.join(lost)}" if lost else ""


class Cluster:
    """Its configuration, and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.environ.get("PATH", "") + ":/usr/sbin"
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}

    def run(self, *command: str, **variables: str) -> str:
        """Run one of Slurm's commands and return what it prints."""
        done = self.ran(*command, **variables)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def ran(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment | variables
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )

    def daemons(self) -> Sequence[list[str]]:
        munge = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return (
            ["munged", "--force", "--foreground", *(f"--{key}={munge / name}" for key, name in files.items())],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", "n1"],
            ["slurmd", "-D", "-N", "n2"],
        )


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster whose two nodes are idle."""
    for name in ("munge", "state", "spool/n1", "spool/n2"):
        (folder / name).mkdir(parents=True)
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o400)
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, ports=[free_port() for _ in range(3)]))
    (folder / "gres.conf").write_text(GRES)
    one = Cluster(folder)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in one.daemons():
            with (folder / f"{command[0]}{len(running)}.log").open("wb") as log:
                running.append(subprocess.Popen(command, env=one.environment, stdout=log, stderr=log))
            if command[0] == "munged":
                wait_until((folder / "munge" / "socket").exists, "munge listens")
        idle = ("sinfo", "--noheader", "--Node", "--format=%T")
        wait_until(
            lambda: one.ran(*idle).stdout.split() == ["idle", "idle"],
            "both nodes are idle",
            lambda: one.ran(*idle),
        )
        yield one
    finally:
        for daemon in reversed(running):
            daemon.terminate()
        for daemon in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(PATIENCE_S)
            daemon.kill()
            daemon.wait()
