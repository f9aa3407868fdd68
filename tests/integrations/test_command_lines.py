"""The crontab and the manifests of the pages: consistent with the command line, and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
import yaml

import lockfast
from lockfast.cli.app import app
from lockfast.cli.exit_codes import Code
from lockfast.cli.supervise.plan import Plan
from tests.servers import Redis, wait_until

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
CRONTAB = (HOW_TO / "examples" / "cron" / "crontab").read_text("utf-8")
JOBS = re.findall(r"^(?:[\d*]+ +){5}(.+)$", CRONTAB, re.MULTILINE)
MANIFESTS = sorted((HOW_TO / "examples" / "kubernetes").glob("*.yaml"))
LONG = 60.0


class Container(NamedTuple):
    """One container of a manifest, with what is said about its pod."""

    command: list[str]
    env: dict[str, Any]
    pod: dict[str, Any]

    def argv(self, values: Mapping[str, str]) -> list[str]:
        """Fill in what Kubernetes fills in: only what the container declares."""
        return [
            re.sub(r"\$\((\w+)\)", lambda found: {k: values[k] for k in self.env}[found[1]], each)
            for each in self.command
        ]


def containers(manifest: Path) -> dict[str, Container]:
    """Find the containers of a manifest, by name."""
    spec = yaml.safe_load(manifest.read_text("utf-8"))["spec"]
    pod = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    return {
        each["name"]: Container(
            each["command"], {variable["name"]: variable for variable in each["env"]}, pod
        )
        for each in pod.get("initContainers", []) + pod["containers"]
    }


CONTAINERS = {name: each for path in MANIFESTS for name, each in containers(path).items()}


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the programs that the pages name: each says what it has got."""
    for name in ("nightly", "fetch", "migrate", "scheduler"):
        last = "exec sleep 600" if name == "scheduler" else "exit 0"
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "{name} ran, token $LOCKFAST_TOKEN"\n{last}\n', "utf-8")
        script.chmod(0o755)
    return tmp_path


def start(
    stack: ExitStack, argv: list[str], home: Path, url: str, output: Path | None = None
) -> subprocess.Popen[str]:
    """Start a command as cron or a kubelet does, in an environment of its own."""
    path = f"{home}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        argv,
        env={"LOCKFAST_URL": url, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if output is None else stack.enter_context(output.open("w")),
        text=True,
    )
    stack.callback(process.__exit__, None, None, None)
    stack.callback(process.kill)
    return process


def said(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Wait until all have succeeded, and give what they wrote."""
    texts = [each.communicate(timeout=LONG)[0] for each in processes]
    assert [each.returncode for each in processes] == [0] * len(processes)
    return texts


@pytest.mark.parametrize("job", JOBS)
def test_a_line_of_the_crontab_runs_on_one_machine_of_three(
    job: str, home: Path, redis: Redis
) -> None:
    with ExitStack() as stack:
        machines = [start(stack, ["/bin/sh", "-c", job], home, redis.url) for _ in range(3)]
        written = "".join(said(machines))
    assert len(re.findall(r"ran, token \d+\n", written)) == 1


def test_a_short_job_of_every_minute_runs_every_minute(home: Path, redis: Redis) -> None:
    """A minute takes six seconds here. The job ends before `--at-least`, so its lock stays until
    the ttl ends; it must not stay into the next minute.
    """
    job = JOBS[-1]
    options = dict(re.findall(r"--(ttl|at-least) (\d+)", job))
    assert int(options["ttl"]) + int(options["at-least"]) <= 60
    for option, seconds in options.items():
        job = job.replace(f"--{option} {seconds}", f"--{option} {int(seconds) / 10}")
    began = home / "began"
    script = f"#!/bin/sh\ntouch {began}\nsleep 2.5\necho ran\n"
    (home / "fetch").write_text(script, "utf-8")
    argv = ["/bin/sh", "-c", job.replace("fetch", "often", 1)]
    with ExitStack() as stack, lockfast.connect(redis.url) as client:
        first = start(stack, argv, home, redis.url)
        wait_until(began.exists, "the first runs", LONG)
        minute = time.monotonic() + 6.0
        assert said([first]) == ["ran\n"]
        time.sleep(max(minute - time.monotonic(), 0.0))
        assert not client.lock("often").holders()
        assert said([start(stack, argv, home, redis.url)]) == ["ran\n"]


def test_the_crontab_has_the_jobs_that_the_page_speaks_of() -> None:
    assert [job.split()[-1] for job in JOBS] == ["nightly", "fetch"]


def test_the_page_on_cron_names_the_exit_codes_as_they_are() -> None:
    page = (HOW_TO / "cron.md").read_text("utf-8")
    named = {int(number) for number in re.findall(r"^\| (\d+)", page, re.MULTILINE)}
    assert named == set(Code) - {Code.DONE, Code.INTERNAL}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_manifest_says_what_the_command_line_understands(name: str) -> None:
    container = CONTAINERS[name]
    program, word, *rest = container.argv({"NAMESPACE": "prod", "POD": "pod-1", "LOCKFAST_URL": ""})
    assert program == "lockfast"
    assert "LOCKFAST_URL" in container.env
    group: Any = typer.main.get_command(app)
    options = group.commands[word].make_context(word, rest).params
    plan = Plan.of(options["ttl"], options["grace"])
    assert container.pod["terminationGracePeriodSeconds"] >= plan.grace
    assert options.get("at_least", 0.0) <= options["ttl"]
    assert options["name"].startswith("prod/")


def test_the_cronjob_is_the_one_that_the_page_speaks_of() -> None:
    spec = yaml.safe_load(MANIFESTS[0].read_text("utf-8"))["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert CONTAINERS["nightly"].pod["restartPolicy"] == "Never"


def pod(number: int, redis: Redis) -> dict[str, str]:
    return {"NAMESPACE": "prod", "POD": f"pod-{number}", "LOCKFAST_URL": redis.url}


def test_of_two_pods_of_the_cronjob_one_runs_and_both_succeed(home: Path, redis: Redis) -> None:
    with ExitStack() as stack:
        pods = [
            start(stack, CONTAINERS["nightly"].argv(pod(each, redis)), home, redis.url)
            for each in range(2)
        ]
        written = "".join(said(pods))
    assert len(re.findall(r"ran, token \d+\n", written)) == 1


def test_of_two_pods_each_migrates_in_its_turn(home: Path, redis: Redis) -> None:
    with ExitStack() as stack:
        pods = [
            start(stack, CONTAINERS["migrate"].argv(pod(each, redis)), home, redis.url)
            for each in range(2)
        ]
        tokens = re.findall(r"ran, token (\d+)\n", "".join(said(pods)))
    assert len(set(tokens)) == len(tokens) == 2


def test_a_pod_that_is_ended_hands_over_to_the_next(home: Path, redis: Redis) -> None:
    written = [home / f"pod-{each}.log" for each in range(2)]
    with ExitStack() as stack:
        client = stack.enter_context(lockfast.connect(redis.url))
        election = client.election("prod/scheduler")
        pods = [
            start(
                stack,
                CONTAINERS["scheduler"].argv(pod(each, redis)),
                home,
                redis.url,
                written[each],
            )
            for each in range(2)
        ]

        def leads(number: int) -> bool:
            leader = election.leader()
            return leader is not None and leader.value == f"pod-{number}"

        wait_until(lambda: leads(0) or leads(1), "one leads", LONG)
        first, second = (0, 1) if leads(0) else (1, 0)
        wait_until(lambda: "scheduler ran" in written[first].read_text(), "it runs", LONG)
        assert not written[second].read_text()
        pods[first].terminate()
        pods[first].wait(LONG)
        wait_until(lambda: leads(second), "the other leads", LONG)
        wait_until(lambda: "scheduler ran" in written[second].read_text(), "it runs", LONG)
        pods[second].terminate()
        pods[second].wait(LONG)
