"""The Containerfile and the compose file, as far as they can be checked without a registry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from lockfast.service.config import Config
from lockfast.service.config_file import read
from lockfast.service.keys import new_key, stored
from tests.cli.run.program import Program
from tests.contrib.ending import LONGEST
from tests.docs.page import ROOT
from tests.servers import free_port
from tests.servers.certificates import Certificates

FOLDER = ROOT / "contrib" / "container"
LINES = FOLDER.joinpath("Containerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
COMPOSE = yaml.safe_load(FOLDER.joinpath("compose.yaml").read_text("utf-8"))
CONFIG = tomllib.loads(FOLDER.joinpath("lockfast.toml").read_text("utf-8"))
REPLICAS = [each for name, each in COMPOSE["services"].items() if name.startswith("replica")]


def said(instruction: str) -> list[str]:
    found = [line.removeprefix(f"{instruction} ") for line in LINES]
    return [text for line, text in zip(LINES, found, strict=True) if text != line]


def test_what_is_copied_from_the_repository_is_there() -> None:
    sources = [each for line in said("COPY") if "--from" not in line for each in line.split()[:-1]]
    assert all((ROOT / each).exists() for each in sources)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = Path(pyproject["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"])
    needed = {"pyproject.toml", "src", hook.parts[0], "README.md"}  # the hook reads the last one
    assert needed | {*pyproject["project"]["license-files"]} <= set(sources)


def test_what_is_installed_are_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (found,) = re.findall(r"'\.\[(.*?)\]'", "\n".join(LINES))
    assert set(found.split(",")) <= project["optional-dependencies"].keys()
    assert {"cli", "service"} <= set(found.split(","))


def test_it_is_not_root_and_is_process_1_itself() -> None:
    assert said("USER") == ["10001:10001"]
    assert json.loads(said("ENTRYPOINT")[0]) == ["lockfast"]  # a shell would keep the signals
    command = json.loads(said("CMD")[0])
    assert command[0] == "serve"
    assert said("EXPOSE") == [str(Config().port)]


def test_the_replicas_have_what_the_configuration_names() -> None:
    assert len(REPLICAS) == 2
    command = json.loads(said("CMD")[0])
    for replica in REPLICAS:
        mounts = dict(each.split(":")[:2] for each in replica["volumes"])
        assert all(each.endswith(":ro") for each in replica["volumes"])
        assert mounts["./lockfast.toml"] == command[-1]
        folder = Path(command[-1]).parent
        for name, value in CONFIG.items():
            if name.endswith("file"):
                assert str(folder / value).startswith(mounts["./secrets"] + "/")
        assert replica["build"]["dockerfile"] == "contrib/container/Containerfile"
        assert (FOLDER / replica["build"]["context"]).resolve() == ROOT
    ports = [port.split(":") for replica in REPLICAS for (port,) in [replica["ports"]]]
    assert [inside for _, inside in ports] == [str(CONFIG["port"])] * 2
    assert len({outside for outside, _ in ports}) == 2


def test_a_replica_has_time_to_drain() -> None:
    for replica in REPLICAS:
        assert int(replica["stop_grace_period"].removesuffix("s")) >= LONGEST + 10


def code_of(program: str) -> int:
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    return done.returncode


def test_with_its_secrets_the_configuration_serves_and_its_health_check_passes(
    tmp_path: Path,
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    files = Certificates(tmp_path)
    (secrets / "engine-url").write_text("memory://")
    (secrets / "keys.toml").write_text(stored("one", new_key()))
    (secrets / "tls.crt").write_text(files.certificate_path.read_text("ascii"))
    (secrets / "tls.key").write_text(files.key_path.read_text("ascii"))
    config = tmp_path / "lockfast.toml"
    config.write_text(FOLDER.joinpath("lockfast.toml").read_text("utf-8"))
    assert Config(**read(str(config))).host == "0.0.0.0"  # noqa: S104  # in a container
    port = free_port()
    *_, code = REPLICAS[0]["healthcheck"]["test"]
    check = code.replace(str(CONFIG["port"]), str(port))
    assert str(port) in check
    command = json.loads(said("CMD")[0])
    with Program(None, *command[:-1], str(config), "--port", str(port)) as program:
        program.says("serving")
        assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
    assert subprocess.run(
        [sys.executable, "-c", check], check=False, capture_output=True
    ).returncode
