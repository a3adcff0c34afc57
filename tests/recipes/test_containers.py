"""The Containerfile, and the files of docs/recipes for containers, judged by programs and schemas that others wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.recipes.proxies import RECIPES, missing
from tests.support.processes import CHECKOUT
from tools_app.base.setting_table import SETTINGS

COMPOSE = ("compose.yml", "compose-scale.yml")
TEMPORARY = "/tmp"  # noqa: S108 – of the container
MANIFESTS = ("kubernetes.yml", "kubernetes-migrate.yml")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((RECIPES / name).read_text()))


def hubs(name: str) -> dict[str, dict[str, Any]]:
    """The services of a compose file that run our image."""
    (composed,) = documents(name)
    return {service: value for service, value in composed["services"].items() if value["image"] == "toolhub"}


def containers(name: str) -> list[dict[str, Any]]:
    pods = [one["spec"]["template"]["spec"] for one in documents(name) if one["kind"] in ("Deployment", "Job")]
    return [container | {"pod": pod} for pod in pods for container in pod["containers"]]


def test_hadolint_has_nothing_to_say() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "Containerfile"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_knows_every_field(name: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, "1.37", strict=True)


def test_every_variable_is_a_setting() -> None:
    """A misspelt one would be ignored silently."""
    known = set(SETTINGS)
    used = {variable for name in COMPOSE for hub in hubs(name).values() for variable in hub["environment"]}
    used |= {one["name"] for name in MANIFESTS for container in containers(name) for one in container.get("env", ())}
    assert "ALLOWED_HOSTS" in used
    assert used <= known


def test_no_container_can_write_its_image_or_gain_privileges() -> None:
    for name in COMPOSE:
        for hub in hubs(name).values():
            assert (hub["read_only"], hub["cap_drop"]) == (True, ["ALL"])
            assert hub["security_opt"] == ["no-new-privileges:true"]
            assert TEMPORARY in hub["tmpfs"]
    for name in MANIFESTS:
        for container in containers(name):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["pod"]["securityContext"]["runAsNonRoot"] is True
            mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounted == {"/var/lib/toolhub", TEMPORARY}


def test_hubs_side_by_side_keep_no_sessions() -> None:
    """The next request of a client may reach another hub, which does not know its session."""
    for service, hub in hubs("compose-scale.yml").items():
        assert hub["environment"]["TOOLHUB_MCP_SESSIONS"] == "0", service
    (container,) = containers("kubernetes.yml")
    assert {"name": "TOOLHUB_MCP_SESSIONS", "value": "0"} in container["env"]


def test_caddy_understands_the_file_for_two_hubs() -> None:
    if reason := missing("caddy"):
        pytest.skip(reason)
    command = ["caddy", "validate", "--adapter", "caddyfile", "--config", str(RECIPES / "Caddyfile.scale")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
