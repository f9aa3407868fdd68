"""The Deployment of the page: its program in several processes, and its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import lockfast
from tests.servers import Program, Redis, free_port, wait_until

HOME = Path(__file__).parents[2] / "docs" / "how-to" / "examples" / "kubernetes-deployment"
MANIFEST: dict[str, Any] = yaml.safe_load((HOME / "deployment.yaml").read_text("utf-8"))
POD: dict[str, Any] = MANIFEST["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
LIVE: str = CONTAINER["livenessProbe"]["httpGet"]["path"]
READY: str = CONTAINER["readinessProbe"]["httpGet"]["path"]
LONG = 60.0  # seconds that a program may take, on a machine that has others to run


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


class Pod(Program):
    """What a kubelet starts and probes."""

    def __init__(self, redis: Redis, namespace: str, name: str, module: str = "worker") -> None:
        self.name_in_cluster = name
        self._port = free_port()
        env = {
            "NAMESPACE": namespace,
            "POD": name,
            "LOCKFAST_URL": redis.url,
            "PORT": str(self._port),
        }
        assert set(env) - {"PORT"} == {each["name"] for each in CONTAINER["env"]}
        super().__init__([module], HOME, "", env)

    def probe(self, path: str) -> int:
        """Give the status, or 0 if nobody listens yet."""
        try:
            return httpx.get(f"http://127.0.0.1:{self._port}{path}", timeout=LONG).status_code
        except httpx.ConnectError:
            return 0

    def is_ready(self) -> bool:
        return self.probe(READY) == HTTPStatus.OK


def pods(stack: ExitStack, redis: Redis, namespace: str) -> list[Pod]:
    """Start two, and wait until both are ready."""
    started = [Pod(redis, namespace, f"pod-{each}") for each in range(2)]
    for each in started:
        stack.callback(each.close)
        each.launch()
    for each in started:
        each.start()
    return started


def test_one_pod_leads_both_are_ready_and_the_end_of_one_is_the_turn_of_the_other(
    redis: Redis,
) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(lockfast.connect(redis.url))
        election = client.election("prod/worker", ttl=15)
        pair = pods(stack, redis, "prod")

        def leader() -> str | None:
            found = election.leader()
            return found.value if found else None

        wait_until(lambda: sum(each.says("working") for each in pair) > 1, "one works", LONG)
        first, second = sorted(pair, key=lambda each: -each.says("working"))
        assert leader() == first.name_in_cluster
        assert second.says("leading") == 0
        assert [each.probe(path) for each in pair for path in (READY, LIVE)] == [HTTPStatus.OK] * 4
        first.stop()  # as a kubelet does: SIGTERM
        assert leader() != first.name_in_cluster  # released: nobody waits for the ttl
        assert first.says("not leading") == 1
        wait_until(lambda: second.says("working") > 0, "the other works", LONG)
        first.start()
        second.kill()
        wait_until(lambda: leader() == first.name_in_cluster, "a ttl later the first leads", LONG)


def test_probes_do_not_depend_on_the_lock_server(redis: Redis) -> None:
    with ExitStack() as stack:
        pair = pods(stack, redis, "alone")
        wait_until(lambda: sum(each.says("working") for each in pair) > 0, "one works", LONG)
        redis.stop()
        try:
            wait_until(lambda: sum(each.says("not leading") for each in pair) > 0, "lost", LONG)
            answers = [each.probe(path) for each in pair for path in (READY, LIVE)]
        finally:
            redis.start()
        assert answers == [HTTPStatus.OK] * 4


def test_a_pod_whose_work_hangs_is_reported_by_its_liveness_probe_only(redis: Redis) -> None:
    with Pod(redis, "stuck", "pod-0", "tests.integrations.stuck_worker") as pod:
        gone = HTTPStatus.SERVICE_UNAVAILABLE
        wait_until(lambda: pod.probe(LIVE) == gone, "it is not alive", LONG)
        assert pod.probe(READY) == HTTPStatus.OK
        pod.kill()  # it hangs: SIGTERM would be in vain


def test_the_manifest_starts_the_program_and_names_its_port() -> None:
    assert CONTAINER["command"] == ["python", "worker.py"]
    (port,) = CONTAINER["ports"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] == port["name"]
    source = (HOME / "worker.py").read_text("utf-8")
    assert f'"PORT", "{port["containerPort"]}"' in source
    # A turn that takes as long as a live one may must fit into the grace period.
    assert f"STUCK = {POD['terminationGracePeriodSeconds']:.1f}" in source


def test_the_manifest_selects_its_own_pods() -> None:
    labels = MANIFEST["spec"]["template"]["metadata"]["labels"]
    assert MANIFEST["spec"]["selector"]["matchLabels"] == labels
