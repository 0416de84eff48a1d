"""What `deploy/` ships is what its tools take: their own schemas, and looptrace's own options."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from looptrace.analyzer.settings.sections import load
from looptrace.cli.services.serve import serve
from tests.paths import ROOT

DEPLOY = ROOT / "deploy"
# Strict: a field that the version does not have is refused.
KUBERNETES = "1.34"
COMPOSE = files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json")
SCHEMA = Draft202012Validator(json.loads(COMPOSE.read_text(encoding="utf-8")))


def read(name: str) -> Any:
    """Read a file of YAML."""
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def objects() -> list[dict[str, Any]]:
    """Read the objects for Kubernetes."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text(encoding="utf-8")))


def test_compose_is_what_its_schema_says() -> None:
    """The schema of the specification takes it, and refuses a misspelt field."""
    compose = read("compose.yml")
    SCHEMA.validate(compose)
    compose["services"]["server"]["stop_grace_perod"] = "10s"

    assert not SCHEMA.is_valid(compose)


def test_compose_names_files_and_volumes_that_are_there() -> None:
    """A file that is missing is found out at the first start, by a user."""
    compose = read("compose.yml")
    named = {config["file"] for config in compose["configs"].values()}
    services = compose["services"].values()
    used = [entry for service in services for entry in service.get("configs", ())]

    assert all((DEPLOY / name).is_file() for name in named)
    assert {entry["source"] for entry in used} == set(compose["configs"])
    mounted = {
        volume.split(":")[0] for service in services for volume in service.get("volumes", ())
    }
    assert mounted == set(compose["volumes"])
    assert (ROOT / "deploy" / compose["services"]["server"]["build"]["context"]).resolve() == ROOT


@pytest.mark.parametrize("kind", ["Service", "StatefulSet"])
def test_kubernetes_takes_the_manifests(kind: str) -> None:
    """The strict schema of a version takes each object, and refuses a misspelt field."""
    (described,) = [each for each in objects() if each["kind"] == kind]
    kubernetes_validate.validate(described, KUBERNETES, strict=True)
    wrong = copy.deepcopy(described)
    wrong["spec"]["replcas"] = 1

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_statefulset_fits_its_service_and_its_volumes() -> None:
    """What one object names the other has; schemas see each alone."""
    service, stateful = objects()
    pod = stateful["spec"]["template"]
    (server,) = pod["spec"]["containers"]
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in stateful["spec"]["volumeClaimTemplates"]}

    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert {each["name"] for each in server["volumeMounts"]} == volumes
    assert {each["targetPort"] for each in service["spec"]["ports"]} == {
        each["name"] for each in server["ports"]
    }
    user = re.search(r"--uid (\d+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert user is not None
    assert pod["spec"]["securityContext"]["runAsUser"] == int(user[1])


def test_servers_are_started_with_options_that_there_are() -> None:
    """`looptrace serve` itself reads the arguments of both."""
    (server,) = objects()[1]["spec"]["template"]["spec"]["containers"]
    for arguments in (read("compose.yml")["services"]["server"]["command"], server["args"]):
        assert arguments[0] == "serve"
        context = serve.make_context("serve", list(arguments[1:]), resilient_parsing=False)
        assert context.params["host"] == "0.0.0.0"  # noqa: S104 - In a container of its own.
        assert context.params["token_file"] is not None


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    """Prometheus would not start with one that it does not take."""
    (tmp_path / "alerts.yml").write_bytes((DEPLOY / "alerts.yml").read_bytes())
    (tmp_path / "token").write_text("a token", encoding="utf-8")
    text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
    path = tmp_path / "prometheus.yml"
    path.write_text(text.replace("/run/secrets/token", str(tmp_path / "token")), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "config", str(path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["collector.yml", "collector-shards.yml"])
def test_the_collector_names_parts_that_it_configures(name: str) -> None:
    """A pipeline of a part that is not configured ends the Collector at its start."""
    collector = read(name)
    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(collector[kind])
    (exporter,) = collector["exporters"].values()
    sending = exporter["protocol"]["otlp"] if "protocol" in exporter else exporter
    authenticator = sending["auth"]["authenticator"]
    assert authenticator in collector["service"]["extensions"]
    assert authenticator in collector["extensions"]


def test_servers_and_their_collector_share_sessions_alike() -> None:
    """The names are the same on both sides, and each replica is one of the servers."""
    shards = load(DEPLOY / "shards.toml").shards
    resolver = read("collector-shards.yml")["exporters"]["loadbalancing"]["resolver"]
    patch = read("kubernetes-shards.yml")["spec"]
    (server,) = patch["template"]["spec"]["containers"]
    own = next(a for a in server["args"] if a.startswith("--shard=")).removeprefix("--shard=")

    assert shards.names == tuple(resolver["static"]["hostnames"])
    pods = [f"looptrace-{number}" for number in range(patch["replicas"])]
    assert shards.urls == tuple(own.replace("$(POD_NAME)", pod) for pod in pods)


def test_a_patch_for_several_servers_fits_the_statefulset() -> None:
    """It mounts what there is, keeps the options of one server, and serve takes the others."""
    whole = objects()[1]["spec"]["template"]["spec"]
    patch = read("kubernetes-shards.yml")["spec"]["template"]["spec"]
    (server,), (patched,) = whole["containers"], patch["containers"]
    volumes = {each["name"] for each in [*whole["volumes"], *patch["volumes"]]} | {"data"}
    mounts = [*patched["volumeMounts"], *patch["initContainers"][0]["volumeMounts"]]

    assert patched["name"] == server["name"]
    assert set(server["args"]) < set(patched["args"])
    assert {each["name"] for each in mounts} <= volumes
    context = serve.make_context("serve", [a for a in patched["args"][1:] if "config" not in a])
    assert context.params["shard"]
