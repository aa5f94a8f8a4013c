"""Jobs of one step that have waited make a finish-time ratio of a thousand; caps that follow can still be met."""

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs

SPEEDS = {
    "a": (9.149214573505743, 11.774537603574824),
    "b": (3.654351913030133, None),
    "c": (14.416536324339713, 8.245877578889774),
}
STEPS = """b 1, c 12157.8012408492, b 103.96306060565077, a 6134.63137874885, a 2941.430943177512, c 1,
a 995.0166499532957, a 2440.368164277708, c 1, c 847.1732800616892, c 1"""


def test_the_policy_meets_its_own_caps() -> None:
    table = Throughputs(
        {
            Setting(kind, name): speed
            for kind, speeds in SPEEDS.items()
            for name, speed in zip(("v100", "k80"), speeds, strict=True)
            if speed
        }
    )
    wanted = [one.split() for one in STEPS.split(",")]
    jobs = [Job(n, kind, float(steps)) for n, (kind, steps) in enumerate(wanted)]
    prices = Prices({"v100": 2.2192161394029553, "k80": 1.2510198157925474})
    policy, cluster = load_policy("shared_cloud_cost_fairness"), Cluster.parse("v100=1,k80=1", 1)
    result = simulate(policy, jobs, cluster, table, prices)
    assert result.summary()["jobs_completed"] == len(jobs)
