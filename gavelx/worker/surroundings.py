"""What a job finds in its environment of the agent's own: not what a launcher said to the agent, and its devices.

An agent may itself be started by ``srun``, ``mpirun`` or ``torchrun``. What these say of ranks and addresses is
about the agent; a training script that found it would join a world that is not its own.
"""

import re
from collections.abc import Mapping, Sequence

OF_LAUNCHERS = re.compile(
    r"(GAVELX|SLURM|PMI|PMIX|PRTE|OMPI|OPAL|ORTE|HYDRA|HYDI|MPI_LOCAL|MV2_COMM|PALS|ALPS|JSM|FLUX|TORCHELASTIC"
    r"|HOROVOD)\w*"
    r"|(LOCAL_|GROUP_|ROLE_|NODE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)"
)
"""Variables of the agent that are not passed on to jobs."""
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables that choose among the devices of a process. ROCR_VISIBLE_DEVICES of the agent, if a site sets it, is
passed on: HIP counts the devices that it leaves, and so does the agent."""


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The agent's variables that its jobs get."""
    return {
        name: value
        for name, value in environment.items()
        if name not in VISIBLE and not OF_LAUNCHERS.fullmatch(name)
    }


def visible(devices: Sequence[str]) -> dict[str, str]:
    """The variables that show a process these devices and no other: to CUDA, and to HIP of ROCm."""
    return dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), ",".join(devices))
