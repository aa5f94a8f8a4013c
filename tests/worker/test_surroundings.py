import json
from pathlib import Path

import pytest

from gavelx.worker.shim import overwrite_json, write_json
from gavelx.worker.sizes import Size
from gavelx.worker.state import LeaseFolder
from gavelx.worker.surroundings import passed_on, visible

NAMES = """
    OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK SLURM_PROCID TORCHELASTIC_RUN_ID MASTER_ADDR RANK LOCAL_RANK GROUP_RANK
    GROUP_WORLD_SIZE ROLE_NAME MPI_LOCALRANKID GAVELX_TOKEN HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_what_launchers_told_the_agent_reaches_no_job(name: str) -> None:
    assert passed_on({name: "1", "PATH": "/bin", "MPI_HOME": "/opt/mpi"}) == {
        "PATH": "/bin",
        "MPI_HOME": "/opt/mpi",
    }


def test_devices_are_bound_for_cuda_and_rocm() -> None:
    assert visible(["1", "3"]) == {"CUDA_VISIBLE_DEVICES": "1,3", "HIP_VISIBLE_DEVICES": "1,3"}


def test_a_launch_file_of_an_earlier_version_is_read() -> None:
    launch = {"lease_id": 7, "devices": ["GPU-a"], "slots": 1, "processes": [{"rank": 2}], "started_s": 5.0}
    assert Size.from_json({}, launch) == Size(7, ["GPU-a"], 1, [2], {}, 5.0)
    new = Size(8, ["GPU-b"], 1, [0], {"generation": 1}, 6.0)
    assert Size.from_json(new.to_json(), launch) == new


@pytest.mark.parametrize("linked", ["7", "leases"])
def test_nothing_is_written_through_a_link_in_place_of_a_folder(tmp_path: Path, linked: str) -> None:
    victim, leases = tmp_path / "victim", tmp_path / "leases"
    (victim / "7").mkdir(parents=True)
    for name in ("lease.json", "ended.json"):
        (victim / name).write_text("theirs")
        (victim / "7" / name).write_text("theirs")
    if linked == "7":
        leases.mkdir()
        (leases / "7").symlink_to(victim)
    else:
        leases.symlink_to(victim)
    lease = LeaseFolder(leases / "7")
    lease.write_lease({"lease_id": 7})
    lease.acknowledge()
    lease.forget()
    for write in (lease.keep_ended, lease.write_launch, lease.write_sizes):
        with pytest.raises(OSError):
            write({})
    kept = {str(file.relative_to(victim)): file.read_text() for file in victim.rglob("*.json")}
    assert kept == dict.fromkeys(["lease.json", "ended.json", "7/lease.json", "7/ended.json"], "theirs")


def test_a_file_that_is_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    victim, lease = tmp_path / "victim", tmp_path / "leases" / "7"
    victim.write_text("theirs")
    lease.mkdir(parents=True)
    for name in ("lease.json", "lease.json.part"):
        (lease / name).symlink_to(victim)
    overwrite_json(lease / "lease.json", {"lease_id": 7}, 64)
    write_json(lease / "lease.json", {"lease_id": 8})
    assert json.loads((lease / "lease.json").read_text()) == {"lease_id": 8}
    assert victim.read_text() == "theirs"
