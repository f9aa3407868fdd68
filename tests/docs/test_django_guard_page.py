"""The migration on the page of Django's guard, in a project that has the page's model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.servers import Postgres

PAGE = (Path(__file__).parents[2] / "docs" / "guards" / "django.md").read_text("utf-8")
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql", "HOST": "localhost", "NAME": "app",
}}
"""
MODEL = """
from django.db import models
from lockfast.guards.django import Fenced

"""


def block(start: str) -> str:
    """Return the part of the page from a line on, up to the next blank lines or the block's end."""
    found = re.search(rf"^{re.escape(start)}.*?(?=\n\n\n|^```)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def test_the_migration_can_be_applied_and_undone(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / "migrations").mkdir(parents=True)
    (shop / "__init__.py").touch()
    (shop / "migrations" / "__init__.py").touch()
    (tmp_path / "settings.py").write_text(SETTINGS, "utf-8")
    (shop / "models.py").write_text(MODEL + block("class Invoice("), "utf-8")
    imports, migration = block("from django.db import migrations"), block("class Migration(")
    guard = shop / "migrations" / "0002_guard.py"
    with Postgres() as server:
        server.command("CREATE DATABASE app")
        env = {**os.environ, "PGPORT": str(server.port), "PGUSER": "postgres"}
        env["DJANGO_SETTINGS_MODULE"] = "settings"

        def manage(*words: str) -> str:
            return subprocess.run(
                [sys.executable, "-m", "django", *words],
                cwd=tmp_path,
                env={**env, "PYTHONPATH": f"{tmp_path}:{env.get('PYTHONPATH', '')}"},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                timeout=60,
            ).stdout

        manage("makemigrations", "shop")
        guard.write_text(f"{imports}\n\n\n{migration}", "utf-8")
        assert "Applying shop.0002_guard... OK" in manage("migrate")
        assert "Unapplying shop.0002_guard... OK" in manage("migrate", "shop", "zero")
