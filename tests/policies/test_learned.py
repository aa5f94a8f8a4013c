"""A learned policy reads its weights from a file and is named after them; a guard keeps bad ones from harm."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import PolicyError, UserError
from gavelx.jobs import Job
from gavelx.policies import Dl2, Learned, elastic, guarded, load_policy
from gavelx.policies.dl2 import Reads
from gavelx.policies.network import Network
from gavelx.simulator import simulate
from gavelx.slots.moves import FEATURES
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

CLUSTER = Cluster.of({"a": 4, "b": 2}, 4)
TABLE = Throughputs(
    {
        Setting("m", name, width): width**0.8 * (1.0 if name == "a" else 0.5)
        for name in ("a", "b")
        for width in (1, 2, 4)
    },
    name="t",
)
JOBS = [
    Job(n, "m", total_steps=3000.0 * (1 + n % 4), arrival_s=400.0 * n, elastic=Elastic("workers", 1, 4))
    for n in range(10)
]


def network(seed: int = 0, *, bias: float = 0.0, sign: float = 1.0) -> Network:
    random = np.random.default_rng(seed)
    wide = (FEATURES, 8, 1)
    weights = [random.normal(size=pair).astype(np.float32) for pair in pairwise(wide)]
    biases = (np.zeros(8, dtype=np.float32), np.array([bias], dtype=np.float32))
    ones = np.ones(FEATURES, dtype=np.float32)
    return Network(0 * ones, ones, (weights[0], sign * weights[1]), biases)


def written(folder: Path, net: Network, name: str = "weights.npz") -> Path:
    path = folder / name
    path.write_bytes(net.to_bytes())
    return path


def test_a_policy_is_named_after_the_digest_of_its_weights(tmp_path: Path) -> None:
    one, other = (Learned(written(tmp_path, network(seed), f"{seed}.npz")) for seed in (1, 2))
    assert one.network.digest in str(one)
    assert one.network.digest != other.network.digest
    assert Learned(written(tmp_path, network(1), "again.npz")).network.digest == one.network.digest


@pytest.mark.parametrize("seed", range(6))
def test_any_network_gives_a_feasible_answer_and_the_same_again(seed: int, tmp_path: Path) -> None:
    policy = elastic(Learned(written(tmp_path, network(seed, bias=1e4))))
    snapshot = Snapshot.of(JOBS, CLUSTER, TABLE, sizes=True)
    first, second = policy.allocate(snapshot), policy.allocate(snapshot)
    np.testing.assert_array_equal(first.share_C, second.share_C)
    assert set(np.unique(first.share_C)) <= {0.0, 1.0}
    assert first.snapshot.configurations.devices_A(first.share_C).sum() > 0


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04 nothing"])
def test_a_file_without_a_network_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"weights\.npz"):
        Learned(tmp_path / "weights.npz")


def test_a_file_that_is_not_there_and_networks_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        Learned(tmp_path / "none.npz")
    fits = network()
    for wrong in (
        replace(fits, weights=fits.weights[::-1]),
        replace(fits, mean_F=fits.mean_F[:-1]),
        replace(fits, biases=(fits.biases[0], np.array([np.nan], dtype=np.float32))),
    ):
        with pytest.raises(UserError, match="do not fit"):
            Learned(written(tmp_path, wrong))
    narrow = Network(np.ones(3), np.ones(3), (np.ones((3, 1)),), (np.zeros(1),))
    with pytest.raises(UserError, match="3 numbers"):
        Learned(written(tmp_path, narrow))


@pytest.mark.parametrize("slot_s", [0, -1.0, np.nan, np.inf, "long", None, [1]])
def test_a_slot_that_is_no_length_of_time_is_refused(tmp_path: Path, slot_s: object) -> None:
    noted = written(tmp_path, replace(network(), note={"slot_s": slot_s}))
    with pytest.raises(UserError, match=r"slot_s is .*; expected seconds, more than 0"):
        Learned(noted)
    if slot_s is not None:
        with pytest.raises(UserError, match="slot_s is"):
            Learned(written(tmp_path, network()), slot_s=slot_s)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no network of DL2"):
        Dl2(written(tmp_path, replace(network(), note=READS.note | {"slot_s": slot_s})))


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [network(bias=-1e6), network(1, sign=-1.0), network(2, bias=1e6)],
    ids=["waits for ever", "by chance", "takes all"],
)
def test_planted_bad_weights_cost_at_most_a_twentieth(bad: Network, tmp_path: Path) -> None:
    """Alone they cost much more, or complete no job at all."""
    teacher = elastic(load_policy("srtf_program"))
    policy = guarded(elastic(Learned(written(tmp_path, bad))), teacher)
    own, theirs = (simulate(one, JOBS, CLUSTER, TABLE) for one in (policy, teacher))
    assert np.isfinite(own.completion_s_J).all()
    assert own.jct_s_J.mean() <= 1.05 * theirs.jct_s_J.mean()


READS = Reads(("m", "other"), ("a", "b"), 5, 60.0)


def dl2(folder: Path, seed: int, reads: Reads = READS) -> Path:
    random = np.random.default_rng(seed)
    wide = (5 * (2 + 3 + 2), 8, 5 * 2 + 1)
    weights = [random.normal(size=pair).astype(np.float32) for pair in pairwise(wide)]
    biases = tuple(random.normal(size=n).astype(np.float32) for n in wide[1:])
    ones = np.ones(wide[0], dtype=np.float32)
    return written(folder, Network(0 * ones, ones, tuple(weights), biases, reads.note), f"dl2-{seed}.npz")


@pytest.mark.parametrize("seed", range(6))
def test_any_network_of_dl2_gives_a_feasible_answer_and_the_same_again(seed: int, tmp_path: Path) -> None:
    path = dl2(tmp_path, seed)
    policy = elastic(Dl2(path))
    assert Network.load(path).digest in str(policy)
    snapshot = Snapshot.of(JOBS, CLUSTER, TABLE, sizes=True)
    first, second = policy.allocate(snapshot), policy.allocate(snapshot)
    np.testing.assert_array_equal(first.share_C, second.share_C)
    assert set(np.unique(first.share_C)) <= {0.0, 1.0}
    assert not first.share_JA[5:].any(), "it sees the oldest five jobs"
    assert first.execution.refresh_s == 60.0


def test_dl2_says_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no network of DL2"):
        Dl2(written(tmp_path, network()))
    with pytest.raises(UserError, match="not what its note says"):
        Dl2(dl2(tmp_path, 0, Reads(("m",), ("a", "b"), 5, 60.0)))
    with pytest.raises(PolicyError, match="learned on a, b, and is asked about a"):
        Dl2(dl2(tmp_path, 0)).allocate(Snapshot.of(JOBS, Cluster.of({"a": 4}, 4), TABLE, sizes=True))


def test_weights_are_a_policy_by_their_file(tmp_path: Path) -> None:
    noted = written(tmp_path, replace(network(), note={"slot_s": 60.0}))
    learned = load_policy(f"elastic({noted})")
    assert str(learned) == str(elastic(Learned(noted)))
    assert Learned(noted).slot_s == 60.0
    assert str(load_policy(str(dl2(tmp_path, 1)))).startswith("dl2(")
    with pytest.raises(UserError, match="cannot be read"):
        load_policy("none.npz")


def test_a_guard_wants_a_tolerance_that_is_one() -> None:
    with pytest.raises(PolicyError, match="tolerance"):
        guarded(load_policy("fifo"), load_policy("srtf"), tolerance=-1.0)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_network_is_told_so(tmp_path: Path, content: bytes) -> None:
    (path := tmp_path / "net.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"net\.npz: is no \.npz file; expected a weights file"):
        Network.load(path)
