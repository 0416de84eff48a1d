"""The image of `deploy/Dockerfile`, built and run as in `deploy/`, without a daemon.

Buildah runs the steps of the Dockerfile, on the image that it names (`--pull`) or, where no
registry of images can be reached, on one of the same name that debootstrap makes from Debian's
packages, with Debian's Python. Podman runs the image with the options of `deploy/compose.yml` and
of `deploy/kubernetes.yml` with the patch for several servers: as another user, without rights, on a
root that nobody can write. Requests come from within the container, because it has no network.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from looptrace.analyzer.settings.sections import load
from looptrace.collector.server.shards.ring import Ring
from tests.paths import ROOT

DEPLOY = ROOT / "deploy"
BASE = "docker.io/library/python:3.12-slim"
IMAGE = "localhost/looptrace"
SUITE = "bookworm"
PACKAGES = "ca-certificates,python3-pip,python-is-python3"
TOKEN = secrets.token_hex(32)
USER = 10001
READY_S, STOP_S = 180.0, 10
_INSIDE = "LOOPTRACE_CONTAINER_TEST"
# A second tree of cgroups beside the first, which crun does not accept.
_HYBRID = Path("/sys/fs/cgroup/unified")
# A loop of one failing call, sent to the server from beside it; prints the gates that it opens.
_LOOP = """
import json, sys, time, urllib.request
def ask(path, body=None):
    headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
    request = urllib.request.Request("http://127.0.0.1:4318" + path, body, headers)
    return json.load(urllib.request.urlopen(request, timeout=10))
def attribute(key, value):
    return {"key": key, "value": {"stringValue": value}}
now = time.time_ns()
spans = [
    {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"{number + 1:016x}",
        "name": "execute_tool run_tests",
        "startTimeUnixNano": str(now + number * 10**9),
        "endTimeUnixNano": str(now + number * 10**9 + 1),
        "status": {"code": 2, "message": "1 failed"},
        "attributes": [
            attribute("session.id", sys.argv[3]),
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "run_tests"),
            attribute("gen_ai.tool.call.arguments", "{}"),
            attribute("gen_ai.tool.call.result", "Error: 1 failed"),
        ],
    }
    for number in range(8)
]
if sys.argv[2] == "send":
    resource = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    ask("/v1/traces", json.dumps(resource).encode())
for _ in range(100):
    if gates := ask("/v1/gates")["gates"]:
        break
    time.sleep(0.1)
print(json.dumps([gate["id"] for gate in gates]))
"""


class ContainerError(Exception):
    """The image differs from `deploy/`, or cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Buildah and podman with a folder of their own."""

    folder: Path

    def run(self, tool: str, *arguments: str, is_wrong: bool = False) -> str:
        """Run a tool; return its output, with its errors if these are wanted.

        Raises:
            ContainerError: if it fails, or succeeds where `is_wrong`.
        """
        where = ["--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run"]
        where += ["--storage-driver", "overlay"]
        if tool == "podman":
            where += ["--cgroup-manager", "cgroupfs", "--log-level", "fatal"]
        done = subprocess.run(
            [tool, *where, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if (done.returncode != 0) != is_wrong:
            said = f"{done.stdout}\n{done.stderr}"[-3000:]
            raise ContainerError(
                f"{tool} {' '.join(arguments)} ended with {done.returncode}: {said}"
            )
        is_both = is_wrong or arguments[0] == "logs"
        return done.stdout + (done.stderr if is_both else "")

    def podman(self, *arguments: str, is_wrong: bool = False) -> str:
        """Run podman."""
        return self.run("podman", *arguments, is_wrong=is_wrong)


def make_base(engine: Engine) -> None:
    """Make the base image of the Dockerfile from Debian's packages, from apt's sources."""
    root = engine.folder / "root"
    target = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    mirror = subprocess.run(target, capture_output=True, text=True, check=True).stdout.split()[0]
    made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), mirror]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContainerError(f"debootstrap ended with {done.returncode}: {done.stdout[-3000:]}")
    for mark in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        mark.unlink()  # There is no other Python, as in the image of that name.
    container = engine.run("buildah", "from", "scratch").strip()
    engine.run("buildah", "add", "--quiet", container, str(root), "/")
    engine.run("buildah", "commit", "--quiet", container, BASE)
    shutil.rmtree(root)


def build(engine: Engine, *, pull: bool) -> None:
    """Run the steps of the Dockerfile; pip uses the same index as here."""
    trusted = [f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/etc/pip.conf")]
    options = ["--isolation=chroot", "--format=docker", "--network=host", *trusted]
    options += [] if pull else ["--pull-never"]
    ignored = f"--ignorefile={DEPLOY / 'Dockerfile.dockerignore'}"
    file = f"--file={DEPLOY / 'Dockerfile'}"
    print(engine.run("buildah", "bud", *options, ignored, file, f"--tag={IMAGE}", str(ROOT))[-300:])


# Of the machine, and not of what is tried: no network and no cgroups, limits that any user may set.
_RUN = (
    *("--network=none", "--cgroups=disabled"),
    *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
)


@contextmanager
def started(engine: Engine, *options: str) -> Iterator[str]:
    """Run a server in a container until it is ready; at the end it stops in time, with code 0."""
    name = engine.podman("run", "--detach", *_RUN, *options).strip()
    try:
        deadline_s = time.monotonic() + READY_S
        while (health := _health(engine, name)) != "healthy":
            running = engine.podman("inspect", "--format={{.State.Running}}", name).strip()
            if running != "true" or time.monotonic() > deadline_s:
                raise ContainerError(f"it is {health}: {engine.podman('logs', name)}")
            time.sleep(0.5)
        yield name
        engine.podman("stop", f"--time={STOP_S}", name)
        code = engine.podman("inspect", "--format={{.State.ExitCode}}", name).strip()
        if code != "0":
            raise ContainerError(f"it was stopped, and ended with {code}")
    finally:
        engine.podman("rm", "--force", name)


def _health(engine: Engine, name: str) -> str:
    """Run the health check of the image once."""
    try:
        engine.podman("healthcheck", "run", name)
    except ContainerError:
        return "unhealthy"
    return "healthy"


def inside(engine: Engine, name: str, *command: str, is_wrong: bool = False) -> str:
    """Run a command in a container."""
    return engine.podman("exec", name, *command, is_wrong=is_wrong)


def gates(engine: Engine, name: str, how: str, session: str = "s1") -> list[str]:
    """Return the open gates, after the spans of a loop if these are sent."""
    found: list[str] = json.loads(inside(engine, name, "python", "-c", _LOOP, TOKEN, how, session))
    return found


def is_confined(engine: Engine, name: str) -> None:
    """Check that the process runs as another user without rights, who can write only its data."""
    ids = inside(engine, name, "sh", "-c", "id -u; id -g").split()
    if ids != [str(USER)] * 2:
        raise ContainerError(f"it runs as {ids}")
    root = inside(engine, name, "grep", "-E", "^[^ ]+ / ", "/proc/mounts").split()
    if "ro" not in root[3].split(","):
        raise ContainerError(f"its root is mounted as {root}")
    inside(engine, name, "touch", "/data/x")
    rights = inside(engine, name, "grep", "-E", "CapEff|NoNewPrivs", "/proc/1/status").split()
    if rights != ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]:
        raise ContainerError(f"it has rights: {rights}")


def try_alone(engine: Engine) -> None:
    """By default it admits no unknown clients: without tokens it does not start."""
    said = engine.podman("run", "--rm", *_RUN, IMAGE, is_wrong=True)
    if "LOOPTRACE_TOKENS" not in said:
        raise ContainerError(f"it does not say what it needs: {said}")


def try_compose(engine: Engine) -> None:
    """Run the server as compose does: a gate opens, and is there after a restart."""
    server = yaml.safe_load((DEPLOY / "compose.yml").read_text("utf-8"))["services"]["server"]
    token = engine.folder / "compose-token"
    token.write_text(f"{TOKEN}\n", "utf-8")
    options = [f"--cap-drop={right}" for right in server["cap_drop"]]
    options += [f"--security-opt={option.partition(':')[0]}" for option in server["security_opt"]]
    options += ["--read-only", "--read-only-tmpfs=false"] if server["read_only"] else []
    options += [f"--volume={volume}" for volume in server["volumes"]]
    options += [f"--volume={token}:/run/secrets/token:ro", IMAGE, *server["command"]]
    with started(engine, *options) as name:
        is_confined(engine, name)
        opened = gates(engine, name, "send")
    with started(engine, *options) as name:
        if not opened or gates(engine, name, "look") != opened:
            raise ContainerError(f"gates {opened} are not there after a restart")


def try_kubernetes(engine: Engine) -> None:
    """Run the pod of one of several servers twice, as a node would: its volume, its probes."""
    spec = patched()["spec"]["template"]["spec"]
    (server,) = spec["containers"]
    ring = Ring(load(DEPLOY / "shards.toml").shards.ring)
    own = next(name for name in map(str, count()) if ring.owner(name) == 0)
    for start in ("send", "look"):
        for first in spec["initContainers"]:
            command = [f"--entrypoint={first['command'][0]}", IMAGE, *first["command"][1:]]
            engine.podman("run", "--rm", *_RUN, *_pod_options(engine, spec, first), *command)
        options = [*_pod_options(engine, spec, server), IMAGE, *_arguments(server)]
        with started(engine, *options) as name:
            is_confined(engine, name)
            for probe in ("readinessProbe", "livenessProbe"):
                asked = server[probe]["httpGet"]
                (host,) = [h["value"] for h in asked["httpHeaders"] if h["name"] == "Host"]
                inside(engine, name, "python", "-c", _PROBE, asked["path"], host)
            if not gates(engine, name, start, own):
                raise ContainerError("no gate opened")


_PROBE = """
import sys, urllib.request
url = "http://127.0.0.1:4318" + sys.argv[1]
urllib.request.urlopen(urllib.request.Request(url, headers={"Host": sys.argv[2]}), timeout=5)
"""


def patched() -> dict[str, Any]:
    """Return the StatefulSet with the patch for several servers, as kubectl merges it."""
    (whole,) = [
        each
        for each in yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text("utf-8"))
        if each["kind"] == "StatefulSet"
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(whole, file)
        file.flush()
        patch = ["--patch-file", str(DEPLOY / "kubernetes-shards.yml"), "--output=json"]
        merge = ["kubectl", "patch", "--local", "--filename", file.name, *patch]
        done = subprocess.run(merge, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContainerError(f"kubectl does not merge the patch: {done.stderr}")
    merged: dict[str, Any] = json.loads(done.stdout)
    return merged


def _pod_options(engine: Engine, spec: dict[str, Any], container: dict[str, Any]) -> list[str]:
    """Return a node's options for a container of a pod, for podman."""
    user, context = spec["securityContext"], container["securityContext"]
    options = [f"--user={user['runAsUser']}:{user['runAsGroup']}"]
    options += [f"--cap-drop={right}" for right in context["capabilities"]["drop"]]
    options += (
        ["--read-only", "--read-only-tmpfs=false"] if context["readOnlyRootFilesystem"] else []
    )
    options += [] if context["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges"]
    options += [f"--env={each['name']}=looptrace-0" for each in container.get("env", ())]
    kinds = {each["name"]: each for each in spec["volumes"]}
    for mount in container["volumeMounts"]:
        volume, path = kinds.get(mount["name"], {}), mount["mountPath"]
        if "emptyDir" in volume:
            options.append(f"--tmpfs={path}")
        elif "secret" in volume or "configMap" in volume:
            options.append(f"--volume={_files(engine, volume, user['fsGroup'])}:{path}:ro")
        else:  # Of the claim; the image gives it to its user, as fsGroup would.
            options.append(f"--volume=claim:{path}")
    return options


def _files(engine: Engine, volume: dict[str, Any], group: int) -> Path:
    """Return a folder with the contents of a secret or a map from the comments of the manifests."""
    folder = engine.folder / str(volume["name"])
    folder.mkdir(exist_ok=True)
    contents = {
        "token": ("tokens", f"alice {TOKEN}\n".encode()),
        "key": ("looptrace-store.key", bytes(range(32))),
        "shards": ("shards.toml", (DEPLOY / "shards.toml").read_bytes()),
    }
    name, content = contents[volume["name"]]
    path = folder / name
    if not path.exists():
        path.write_bytes(content)
        os.chown(path, 0, group)
        path.chmod(volume.get("secret", {}).get("defaultMode", 0o644))
    return folder


def _arguments(container: dict[str, Any]) -> list[str]:
    return [each.replace("$(POD_NAME)", "looptrace-0") for each in container["args"]]


def main() -> int:
    """Build the image and try it; return 0 where everything is as in `deploy/`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pull", action="store_true", help="begin with the Dockerfile's own image")
    options = parser.parse_args()
    needed = ["buildah", "podman", "crun", "kubectl", *([] if options.pull else ["debootstrap"])]
    if missing := [tool for tool in needed if shutil.which(tool) is None]:
        print(f"install {', '.join(missing)} for this", file=sys.stderr)
        return 2
    if _HYBRID.is_mount() and not os.environ.get(_INSIDE):
        return _again_without(_HYBRID)
    with tempfile.TemporaryDirectory(prefix="looptrace-image-") as folder:
        engine = Engine(Path(folder))
        steps: list[tuple[str, Callable[[Engine], None]]] = [
            *([] if options.pull else [("base", make_base)]),
            ("build", partial(build, pull=options.pull)),
            ("alone", try_alone),
            ("compose", try_compose),
            ("kubernetes", try_kubernetes),
        ]
        try:
            for name, step in steps:
                began_s = time.monotonic()
                step(engine)
                print(f"{name}: {time.monotonic() - began_s:.0f} s", flush=True)
        except ContainerError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        finally:
            engine.podman("system", "reset", "--force")
    return 0


def _again_without(mount: Path) -> int:
    """Run this again in a namespace without a mount, which stays for all other processes."""
    command: Sequence[str] = [sys.executable, "-m", "benchmarks.container", *sys.argv[1:]]
    without = ["sh", "-c", 'umount "$0" && exec "$@"', str(mount), *command]
    unshared = ["unshare", "--mount", "--propagation=private", *without]
    return subprocess.run(unshared, env=os.environ | {_INSIDE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
