"""The Kubernetes manifests: right by the API's schema, and what they tell gavelx is what gavelx knows."""

from pathlib import Path
from typing import Any

import pytest

import gavelx

FOLDER = Path(gavelx.__file__).parents[1] / "deploy" / "kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
SCHEMA = "1.30"


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with kubernetes-validate")
    return list(yaml.safe_load_all(path.read_text()))


def pods() -> list[tuple[str, dict[str, Any]]]:
    """Whatever makes pods, with its kind and name."""
    every = [one for path in FILES for one in documents(path)]
    return [
        (f"{one['kind']} {one['metadata']['name']}", one) for one in every if "template" in one.get("spec", {})
    ]


def test_there_are_some() -> None:
    assert [path.name for path in FILES] == ["agents.yaml", "scheduler.yaml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_they_follow_the_schema_of_the_api(path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in documents(path):
        kubernetes_validate.validate(document, SCHEMA, strict=True)


def test_the_schema_finds_mistakes() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    document = documents(FOLDER / "agents.yaml")[1]
    document["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, SCHEMA, strict=True)


def test_labels_volumes_and_secrets_fit_together() -> None:
    made = pods()
    assert len(made) == 2
    for name, one in made:
        template, spec = one["spec"]["template"], one["spec"]["template"]["spec"]
        assert one["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"], name
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
        (container,) = spec["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes, name
        assert spec["securityContext"]["runAsNonRoot"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]


def test_agents_are_given_options_that_exist() -> None:
    typer = pytest.importorskip("typer")
    from gavelx.cli.commands import app

    known = {option for one in typer.main.get_command(app).commands["worker"].params for option in one.opts}
    (container,) = dict(pods())["DaemonSet gavelx-agent-v100"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["gavelx", "worker"]
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
