"""What `deploy/` ships is what its tools take: their own schemas, and looptrace's own options.

`make test-deploy` builds the image and runs it.
"""

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import kubernetes_validate
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from jsonschema import Draft202012Validator

from benchmarks.container import patched
from looptrace.analyzer.settings.sections import load
from looptrace.cli.services.serve import serve
from tests.paths import ROOT
from tests.ports import free_ports
from tests.reliability.serving import DEADLINE_S, served, until

DEPLOY = ROOT / "deploy"


def needs(tool: str) -> pytest.MarkDecorator:
    """Return the mark of a test that runs a tool which is not everywhere."""
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


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
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    user, group = re.search(r"--uid (\d+)", text), re.search(r"--gid (\d+)", text)
    assert user is not None
    assert group is not None
    assert pod["spec"]["securityContext"]["runAsUser"] == int(user[1])
    assert pod["spec"]["securityContext"]["runAsGroup"] == int(group[1])


def test_servers_are_started_with_options_that_there_are() -> None:
    """`looptrace serve` itself reads the arguments of both."""
    (server,) = objects()[1]["spec"]["template"]["spec"]["containers"]
    for arguments in (read("compose.yml")["services"]["server"]["command"], server["args"]):
        assert arguments[0] == "serve"
        context = serve.make_context("serve", list(arguments[1:]), resilient_parsing=False)
        assert context.params["host"] == "0.0.0.0"  # noqa: S104 - In a container of its own.
        assert context.params["token_file"] is not None


@needs("promtool")
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
    used = collector["service"].get("extensions", [])
    assert set(used) == set(collector.get("extensions", ()))
    (exporter,) = collector["exporters"].values()
    if "protocol" in exporter:  # The authenticator sends no token over gRPC without TLS.
        sending = exporter["protocol"]["otlp"]
        assert sending["tls"]["insecure"]
        assert "auth" not in sending
        assert sending["headers"]["authorization"] == "Bearer ${env:LOOPTRACE_TOKEN}"
    else:
        assert exporter["auth"]["authenticator"] in used


def test_the_sampler_stands_before_the_tracing_system_only() -> None:
    """Whatever is sampled away before the server is a loop that nobody finds."""
    pipelines = read("collector-sampling.yml")["service"]["pipelines"]

    assert pipelines["traces/looptrace"]["processors"] == ["batch"]
    assert "tail_sampling" in pipelines["traces/tracing"]["processors"]


def test_servers_and_their_collector_share_sessions_alike() -> None:
    """The names are the same on both sides, and each replica is one of the servers."""
    shards = load(DEPLOY / "shards.toml").shards
    exporter = read("collector-shards.yml")["exporters"]["loadbalancing"]
    resolver = exporter["resolver"]
    patch = read("kubernetes-shards.yml")["spec"]
    (server,) = patch["template"]["spec"]["containers"]
    own = next(a for a in server["args"] if a.startswith("--shard=")).removeprefix("--shard=")

    assert shards.names == tuple(resolver["static"]["hostnames"])
    assert [shards.attribute] == exporter["routing_attributes"]
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


@needs("kubectl")
def test_kubectl_merges_the_patch_and_a_restricted_namespace_takes_the_pod() -> None:
    """The strict schema takes what comes of it; no container may become root, or write its root."""
    whole = patched()
    kubernetes_validate.validate(whole, KUBERNETES, strict=True)
    pod = whole["spec"]["template"]["spec"]
    (server,) = pod["containers"]

    assert whole["spec"]["replicas"] == 3
    assert {each["name"] for each in server["volumeMounts"]} >= {"data", "token", "shards"}
    assert {each["name"] for each in server["env"]} == {"POD_NAME"}
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (server, *pod["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@needs("systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """A setting that it does not know is a warning there, and a hole in the wall here."""
    text = (DEPLOY / "looptrace.service").read_text(encoding="utf-8")
    path = tmp_path / "looptrace.service"
    path.write_text(text.replace("/opt/looptrace/bin/looptrace", sys.executable), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_grafana_knows_each_field_of_the_dashboard() -> None:
    """Grafana's own classes write what they have read, without the fields that they do not know."""
    register_default_plugins()
    shipped = json.loads((DEPLOY / "grafana/looptrace.json").read_text(encoding="utf-8"))

    assert lost(shipped, written(shipped)) == []
    shipped["panels"][0]["fieldConfg"] = {}
    assert lost(shipped, written(shipped)) == ["/panels/0/fieldConfg"]


def written(dashboard: dict[str, Any]) -> Any:
    """Return a dashboard as Grafana's classes write it."""
    return json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))


def lost(shipped: Any, back: Any, path: str = "") -> list[str]:
    """Return where a value is no longer what it was; what was added is a default."""
    if isinstance(shipped, dict) and isinstance(back, dict):
        parts = [(key, value, back.get(key)) for key, value in shipped.items()]
    elif isinstance(shipped, list) and isinstance(back, list) and len(shipped) == len(back):
        parts = [(number, *pair) for number, pair in enumerate(zip(shipped, back, strict=True))]
    else:
        return [] if shipped == back else [path]
    return [each for name, a, b in parts for each in lost(a, b, f"{path}/{name}")]


@needs("promtool")
def test_each_alert_fires_when_it_should_and_no_other(tmp_path: Path) -> None:
    """An alert that never fires is found out at night, and one that always does is switched off."""
    (tmp_path / "alerts.yml").write_bytes((DEPLOY / "alerts.yml").read_bytes())
    names = [rule["alert"] for rule in read("alerts.yml")["groups"][0]["rules"]]
    series = read("../tests/alert_series.yml")
    fires, well = series["fires"], series["well"]
    tests = [alert_test(name, {**well, **fires[name]}) for name in names]
    tests.append(alert_test("", well))
    text = yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": tests})
    (tmp_path / "tests.yml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "tests.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert set(fires) == set(names)
    assert done.returncode == 0, done.stdout + done.stderr


def alert_test(name: str, series: Mapping[str, str]) -> dict[str, Any]:
    """Return the test that of all alerts one fires after 80 minutes, or none without a name."""
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    fired = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else []
    return {
        "interval": "1m",
        "input_series": [{"series": key, "values": value} for key, value in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "80m", "exp_samples": fired}],
    }


@needs("prometheus")
def test_prometheus_reads_a_server_with_its_token(tmp_path: Path) -> None:
    """Prometheus itself, with the file that compose gives it: it reads, and runs every rule."""
    token = tmp_path / "token"
    token.write_text("a-token-for-prometheus-0123456789abcdef\n", encoding="utf-8")
    (tmp_path / "alerts.yml").write_bytes((DEPLOY / "alerts.yml").read_bytes())
    with served(tmp_path / "store", "--token-file", str(token)) as server:
        text = (DEPLOY / "prometheus.yml").read_text(encoding="utf-8")
        text = text.replace("/run/secrets/token", str(token)).replace("15s", "1s")
        text = text.replace("server:4318", server.address)
        (tmp_path / "prometheus.yml").write_text(text, encoding="utf-8")
        (port,) = free_ports(1)
        with running_prometheus(tmp_path, port):
            until(lambda: values(port, 'up{job="looptrace"}') == ["1"])
            until(lambda: values(port, "looptrace_detection_is_current") == ["1"])
            until(lambda: "unknown" not in health_of_rules(port))
            assert health_of_rules(port) == {"ok"}


@contextmanager
def running_prometheus(folder: Path, port: int) -> Iterator[None]:
    """Run Prometheus with `prometheus.yml` of a folder."""
    options = ["--config.file", "prometheus.yml", "--storage.tsdb.path", "data"]
    listen = f"--web.listen-address=127.0.0.1:{port}"
    running = subprocess.Popen(
        ["prometheus", *options, listen],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.terminate()
        running.wait(DEADLINE_S)


def asked(port: int, path: str) -> Any:
    """Ask Prometheus, once it listens; returns the data of its answer, None before."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=DEADLINE_S) as answer:
            return json.load(answer)["data"]
    except URLError:
        return None


def values(port: int, query: str) -> list[str]:
    """Return what a query gives."""
    data = asked(port, f"query?{urlencode({'query': query})}")
    return [each["value"][1] for each in data["result"]] if data else []


def health_of_rules(port: int) -> set[str]:
    """Return how the rules were: ok, err, or unknown where they have not run."""
    return {rule["health"] for group in asked(port, "rules")["groups"] for rule in group["rules"]}
