"""The Kubernetes manifests fit together, and fit the service."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import pytest
import yaml

from lockfast.runtime.aio import Aio
from lockfast.service.admission import Admission
from lockfast.service.app import LIVE, READY, App
from lockfast.service.config import Config
from lockfast.service.config_file import read
from lockfast.service.keys import Keys
from lockfast.service.replica import Replica
from lockfast.service.server import DRAINING, FLUSHING
from tests.contrib.ending import LONGEST
from tests.docs.page import ROOT
from tests.service.peers import Held

PATH = ROOT / "contrib" / "kubernetes" / "lockfast.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(PATH.read_text("utf-8")))


def only(kind: str) -> dict[str, Any]:
    (found,) = (each for each in OBJECTS if each["kind"] == kind)
    return found


POD = only("Deployment")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
PORTS = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}


def test_each_object_is_of_the_version_that_clusters_have() -> None:
    assert [(each["kind"], each["apiVersion"]) for each in OBJECTS] == [
        ("Secret", "v1"),
        ("ConfigMap", "v1"),
        ("Deployment", "apps/v1"),
        ("Service", "v1"),
        ("PodDisruptionBudget", "policy/v1"),
        ("NetworkPolicy", "networking.k8s.io/v1"),
    ]


def test_every_selector_selects_the_pods() -> None:
    labels = POD["metadata"]["labels"]
    (spread,) = POD["spec"]["topologySpreadConstraints"]
    for selector in (
        only("Deployment")["spec"]["selector"]["matchLabels"],
        only("Service")["spec"]["selector"],
        only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        only("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        spread["labelSelector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels.items()


def test_the_ports_are_those_of_the_configuration() -> None:
    configured = tomllib.loads(only("ConfigMap")["data"]["lockfast.toml"])["port"]
    assert {"lockfast": configured} == PORTS
    (port,) = only("Service")["spec"]["ports"]
    assert PORTS[port["targetPort"]] == port["port"] == Config().port
    (ingress,) = only("NetworkPolicy")["spec"]["ingress"]
    assert [each["port"] for each in ingress["ports"]] == [configured]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] in PORTS


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", LIVE), ("livenessProbe", LIVE), ("readinessProbe", READY)],
)
def test_the_paths_of_the_probes_are_served_to_the_kubelet(probe: str, path: str) -> None:
    """It has no key, and `Host` is the address of the pod."""
    assert CONTAINER[probe]["httpGet"]["path"] == path
    assert CONTAINER[probe]["httpGet"]["scheme"] == "HTTPS"

    async def status() -> int:
        replica = Replica(Held().made, Aio())
        app = App(replica, Admission(Keys({"one": "sha256:" + "0" * 64})))
        scope = {"path": path, "method": "GET", "headers": [(b"host", b"10.1.2.3:7420")]}
        found = await app._status(scope)
        await replica.close()
        return found

    assert asyncio.run(status()) == 200


def test_a_pod_has_time_to_drain() -> None:
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["spec"]["terminationGracePeriodSeconds"] >= pause + LONGEST + 10
    assert LONGEST > DRAINING + FLUSHING


def test_some_replicas_serve_during_a_rolling_update_and_a_drained_node() -> None:
    spec = only("Deployment")["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert only("PodDisruptionBudget")["spec"]["maxUnavailable"] < spec["replicas"]


def test_what_is_mounted_is_there_and_is_what_the_configuration_names() -> None:
    volumes = {each["name"]: each for each in POD["spec"]["volumes"]}
    mounts = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    assert mounts.keys() == volumes.keys()
    assert volumes["config"]["configMap"]["name"] == only("ConfigMap")["metadata"]["name"]
    assert volumes["secrets"]["secret"]["secretName"] == only("Secret")["metadata"]["name"]
    assert mounts["config"] == CONTAINER["args"][-1]
    folder = mounts["config"].rpartition("/")[0]
    files = {
        *(f"{mounts['secrets']}/{name}" for name in only("Secret")["stringData"]),
        *(f"{mounts['tls']}/{name}" for name in ("tls.crt", "tls.key")),  # by kubernetes.io/tls
    }
    entries = tomllib.loads(only("ConfigMap")["data"]["lockfast.toml"])
    named = {f"{folder}/{value}" for key, value in entries.items() if key.endswith("file")}
    assert named == files


def test_the_configuration_and_the_keys_can_be_read(tmp_path: Any) -> None:  # noqa: ANN401
    (tmp_path / "secrets").mkdir()
    for name, text in only("Secret")["stringData"].items():
        (tmp_path / "secrets" / name).write_text(text)
    path = tmp_path / "lockfast.toml"
    path.write_text(only("ConfigMap")["data"]["lockfast.toml"])
    assert Config(**read(str(path))).url == only("Secret")["stringData"]["engine-url"]
    assert len(Keys(tomllib.loads(only("Secret")["stringData"]["keys.toml"]))) == 1


def test_the_container_can_do_no_more_than_it_must() -> None:
    pod, container = POD["spec"]["securityContext"], CONTAINER["securityContext"]
    assert pod["runAsNonRoot"]
    assert pod["runAsUser"] == 10001
    assert not POD["spec"]["automountServiceAccountToken"]
    assert container["readOnlyRootFilesystem"]
    assert not container["allowPrivilegeEscalation"]
    assert container["capabilities"] == {"drop": ["ALL"]}
