"""The image, and what docs/containers.md does with it. `docker` is Podman here, and there is no registry.

Left out by name: compose.network.yml needs the images of Prometheus and names for containers, which Podman gives only
with another plug-in, and a cluster runs nowhere in the tests. Their files are checked, and the pod of the StatefulSet
is run by Podman.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cairn.cli.network.homes import BASE_PORT
from tests.support.containers import Containers
from tests.support.network import make_homes
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import PROGRAMS, ROOT, Page
from tests.support.ports import free_base_port, free_ports
from tests.support.programs import need_program
from tests.support.scratch import directory_on_disk

PAGE = Page("docs/containers.md")
ACCOUNT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
NODE_USER = 10001
MANIFEST = ROOT / "packaging" / "kubernetes" / "cairn.yml"


@pytest.fixture(scope="module")
def containers() -> Iterator[Containers]:
    with directory_on_disk() as scratch:
        made = Containers(scratch)
        try:
            made.build()
            yield made
        finally:
            made.close()


def test_the_page_runs_a_node_that_keeps_its_chain(containers: Containers) -> None:
    [port] = free_ports(1)
    names = {"ADDRESS": ACCOUNT, "127.0.0.1:8645": f"127.0.0.1:{port}"}
    printed = [containers.run(step.line, names=names) for step in PAGE.section("Run one node").steps()]
    ready, status = printed[2], printed[3]
    assert '"status":"ready"' in ready
    assert "ready" in status

    users = containers.run("docker top node huser").split()[1:]
    assert set(users) == {str(NODE_USER)}
    containers.run(
        f"curl --silent --fail --retry 20 --retry-delay 1 --retry-all-errors http://127.0.0.1:{port}/ready",
    )
    kept = containers.run(f"curl --silent http://127.0.0.1:{port}/account/{ACCOUNT}")
    assert f'"balance":{1000 * 10**18}' in kept


def test_the_compose_file_runs_a_node(containers: Containers, tmp_path: Path) -> None:
    need_program("podman-compose")
    [port] = free_ports(1)
    compose = (ROOT / "packaging" / "container" / "compose.yml").read_text()
    (tmp_path / "compose.yml").write_text(compose.replace("127.0.0.1:8645", f"127.0.0.1:{port}"))
    with_file = f"cd {tmp_path} && podman-compose -f compose.yml"
    containers.run(f"{with_file} run --rm node init /var/lib/cairn --alloc {ACCOUNT}=1000coins --proposer {ACCOUNT}")
    containers.run(f"{with_file} up --detach")
    try:
        ready = f"curl --silent --fail --retry 20 --retry-delay 1 --retry-all-errors http://127.0.0.1:{port}/ready"
        assert '"status":"ready"' in containers.run(ready)
    finally:
        containers.run(f"{with_file} down --volumes")


def test_the_pod_of_the_stateful_set_gets_its_home_and_is_ready(containers: Containers, tmp_path: Path) -> None:
    home = tmp_path / "home"
    init = command(["init", str(home), "--alloc", f"{ACCOUNT}=1000coins", "--proposer", ACCOUNT])
    subprocess.run(init, env=clean_environment(), stdout=subprocess.DEVNULL, check=True)
    pod = pod_of(stateful_set(), home)
    (tmp_path / "pod.yml").write_text(yaml.safe_dump(pod))
    # The secret's files are readable for the pod's user.
    containers.run(f"chown -R {NODE_USER} {home} && chmod 0755 {home} {tmp_path}")
    containers.run(f"docker play kube {tmp_path / 'pod.yml'}")
    try:
        probe = stateful_set()["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
        ask = f"from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8645{probe}').status)"
        wait_until(
            lambda: _succeeds(containers, f'docker exec cairn-0-node python3 -c "{ask}"'), PATIENCE_S, "a ready pod"
        )
        containers.run("docker stop --time 60 cairn-0-node")
        assert containers.run("docker inspect cairn-0-node --format '{{.State.ExitCode}}'").strip() == "0"
    finally:
        containers.run("docker pod rm --force cairn-0")


def _succeeds(containers: Containers, command: str) -> bool:
    try:
        containers.run(command)
    except AssertionError:
        return False
    return True


def stateful_set() -> dict[str, Any]:
    [found] = [each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "StatefulSet"]
    return dict(found)


def pod_of(stateful_set: dict[str, Any], home: Path) -> dict[str, Any]:
    """What Kubernetes would make of it, with a directory in the place of the secret."""
    template = stateful_set["spec"]["template"]
    spec = template["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        container["image"] = "localhost/cairn:latest"
        # Podman takes those of the manifest on this machine, too, where a node may run.
        for listening, port in zip(container.get("ports", []), free_ports(2), strict=False):
            listening["hostPort"] = port
    # A drain is for balancers; nobody balances here.
    [drain] = [each for each in spec["containers"][0]["env"] if each["name"] == "CAIRN_DRAIN_DELAY_S"]
    drain["value"] = "0"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    volumes["home-files"] = {"name": "home-files", "hostPath": {"path": str(home)}}
    volumes["chain"] = {"name": "chain", "persistentVolumeClaim": {"claimName": "pod-chain"}}
    spec["volumes"] = list(volumes.values())
    # Podman would remove it while it still ends.
    annotations = {"io.podman.annotations.init.container.type": "always"}
    metadata = template["metadata"] | {"name": "cairn-0", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    subprocess.run([PROGRAMS / "kubernetes-validate", "--strict", MANIFEST], check=True)


def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    subprocess.run([PROGRAMS / "hadolint", ROOT / "packaging" / "container" / "Dockerfile"], check=True)


def test_prometheus_takes_the_settings_of_the_compose_file(tmp_path: Path) -> None:
    for name in ("container/prometheus.yml", "monitoring/alerts.yml"):
        (tmp_path / Path(name).name).write_bytes((ROOT / "packaging" / name).read_bytes())
    subprocess.run([need_program("promtool"), "check", "config", tmp_path / "prometheus.yml"], check=True)


def test_every_compose_service_is_restricted_and_has_its_target() -> None:
    for name in ("compose.yml", "compose.network.yml"):
        services = yaml.safe_load((ROOT / "packaging" / "container" / name).read_text())["services"]
        for each in services.values():
            assert each["read_only"]
            if "CAIRN_IMAGE" in each["image"]:
                assert each["cap_drop"] == ["ALL"]
    validators = [name for name in services if name.startswith("validator")]
    watched = yaml.safe_load((ROOT / "packaging" / "container" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {each["job_name"]: each["static_configs"][0]["targets"] for each in watched}
    # As `cairn testnet` numbers them, with the API first.
    api, _, _, metrics, engine_metrics = range(BASE_PORT, BASE_PORT + 5)
    assert targets["cairn"] == [f"{name}:{metrics}" for name in validators]
    assert targets["cometbft"] == [f"{name}:{engine_metrics}" for name in validators]
    for each in map(services.get, validators):
        assert f"127.0.0.1:{api}/health" in each["healthcheck"]["test"][-1]
        assert each["environment"]["CMT_INSTRUMENTATION_PROMETHEUS_LISTEN_ADDR"] == f"0.0.0.0:{engine_metrics}"
    assert services["validator0"]["ports"] == [f"127.0.0.1:{api}:{api}"]


def test_cometbft_shows_its_metrics_where_its_environment_says(cometbft_tools: Path, tmp_path: Path) -> None:
    """As compose.network.yml has it."""
    [port] = free_ports(1)
    make_homes(tmp_path / "net", 1, [f"--base-port={free_base_port(1)}"])
    listen = {"CMT_INSTRUMENTATION_PROMETHEUS_LISTEN_ADDR": f"127.0.0.1:{port}"}
    with NodeProcess.start(("run", "--home", str(tmp_path / "net" / "node0")), listen) as node:
        node.wait_ready()
        assert "\ncometbft_consensus_height" in httpx.get(f"http://127.0.0.1:{port}/metrics").text
