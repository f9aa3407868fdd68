"""The wheel, as users install it: each extra in an empty environment, and what they do first."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from pathlib import Path

from release.steps import HOME, ROOT, Refused, pip, run
from tests.docs.empty import Wheelhouse
from tests.docs.page import read
from tests.docs.reader import Reader

QUICKSTART = ROOT / "docs" / "quickstart.md"
CONNECT = "import lockfast; lockfast.connect({!r}).close()"
DJANGO = """
import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", {}], USE_TZ=True)
django.setup()
"""
PROGRAMS = {
    "": "import lockfast, lockfast.aio; lockfast.connect('memory://').close()",
    "alembic": "import lockfast.integrations.alembic",
    "apscheduler": "import lockfast.integrations.apscheduler, apscheduler",
    "celery": "import lockfast.integrations.celery",
    "cli": "import lockfast.cli.app",
    "django": DJANGO.format("'lockfast.integrations.django'") + "import lockfast.guards.django",
    "django-celery-beat": DJANGO.format("'django_celery_beat'")
    + "import lockfast.integrations.celery.database",
    "etcd": CONNECT.format("etcd://localhost"),
    "guard-http": "import lockfast.guards.http.httpx, lockfast.guards.http.requests",
    "guard-objects": "import lockfast.guards.objects, boto3",
    "guard-redis": "import lockfast.guards.redis, redis",
    "jwt": "import lockfast.guards.signed, jwt, cryptography",
    "mysql": CONNECT.format("mysql://app@localhost/x"),
    "otel": "import lockfast.telemetry; lockfast.telemetry.instrument()",
    "postgres": CONNECT.format("postgresql://localhost/x") + "; import lockfast.guards.postgres",
    "prometheus": "import opentelemetry.exporter.prometheus, lockfast.telemetry",
    "redis": CONNECT.format("redis://localhost"),
    "redlock": CONNECT.format("redlock://a,b,c"),
    "remote": CONNECT.format("lockfast://localhost"),
    "service": "import lockfast.service.server",
    "sqlalchemy": "import lockfast.guards.sqlalchemy",
    "starlette": "import lockfast.integrations.starlette",
    "testing": "import lockfast.testing.contract.suite",
    "web": "import lockfast.web; lockfast.web.app('memory://')",
    "zookeeper": CONNECT.format("zookeeper://localhost"),
}
"""What a user of each extra does first. It connects to no server."""


def extras() -> list[str]:
    """Return the names of the extras."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return list(pyproject["project"]["optional-dependencies"])


def package(extra: str) -> str:
    """Return what pip installs."""
    return f"lockfast[{extra}]" if extra else "lockfast"


def environments(wheel: Path) -> dict[str, Path]:
    """Make an empty environment for each extra, and one without any; return their folders."""
    names = ["", *extras()]
    house = Wheelhouse(HOME / "wheelhouse", map(package, names), wheel)
    return {name: house.environment(frozenset({package(name)})) for name in names}


def use(made: dict[str, Path]) -> None:
    """Run the program of each extra in its environment, and all of them with `all`."""
    for extra, folder in made.items():
        python = folder / "bin" / "python"
        pip(python, "check")
        for name in PROGRAMS if extra == "all" else [extra]:
            if (extra, name) != ("all", "testing"):
                run(python, "-W", "error", "-c", PROGRAMS[name], cwd=folder)
        print(f"{package(extra)}: installed, imported")


def first_steps(bare: Path, with_command: Path) -> None:
    """Follow the quickstart without a server, ask for the version, and play the demo."""
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "quickstart.md"
        page.write_text(
            QUICKSTART.read_text("utf-8").partition("## The same with Redis")[0], "utf-8"
        )
        Reader(Path(place), bare, {}, {}).follow(read(page))
    print("quickstart: followed")
    command = with_command / "bin" / "lockfast"
    print(run(command, "--version"), end="")
    print(run(command, "demo", "--fast", "--memory").rstrip().splitlines()[-1])


def contract(environment: Path) -> None:
    """Hold the SQLite engine of the wheel to the contract of the wheel."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(Path(__file__).with_name("sqlite_contract.py"), f"{place}/test_sqlite.py")
        python = environment / "bin" / "python"
        printed = run(python, "-m", "pytest", "-q", "test_sqlite.py", cwd=Path(place))
    last = printed.rstrip().splitlines()[-1]
    if " passed" not in last:
        raise Refused(printed)
    print(last)
