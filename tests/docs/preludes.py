"""What stands before the example of a docstring: imports, a client, the reader's own program."""

from __future__ import annotations

import textwrap

START = """\
import asyncio
import lockfast, lockfast.aio
"""
THREADS = """\
client = lockfast.connect("memory://")
"""
TASKS = """\
async def main(client):
{body}

async def run():
    async with lockfast.aio.connect("memory://") as client:
        await main(client)

asyncio.run(run())
"""
INVOICES = """\
import psycopg
from lockfast.guards.postgres import install
install("postgresql://localhost/app")
with psycopg.connect("postgresql://localhost/app") as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS invoices (id int PRIMARY KEY, paid boolean)")
    connection.execute("INSERT INTO invoices VALUES (42, false) ON CONFLICT DO NOTHING")
"""
DJANGO = """\
import django
from django.conf import settings
install("postgresql://localhost/app")
database = {"ENGINE": "django.db.backends.postgresql", "HOST": "localhost", "NAME": "app"}
settings.configure(DATABASES={"default": database})
django.setup()
from django.db import models

class Invoice(models.Model):
    id = models.IntegerField(primary_key=True)
    paid = models.BooleanField()

    class Meta:
        app_label = "shop"
        db_table = "invoices"
"""
SERVICE = """\
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server
from lockfast.guards.http import Door
from lockfast.guards.http.wsgi import FencingMiddleware

class Quiet(WSGIRequestHandler):
    def log_message(self, *args): ...

def application(environ, start):
    assert environ["lockfast.shown"].name == "invoice:42"
    start("204 No Content", [])
    return []

door = Door(lambda method, path: f"invoice:{path.rpartition('/')[2]}", marks={})
served = FencingMiddleware(application, door)
server = make_server("localhost", PORT, served, handler_class=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""
APPLICATION = """\
from lockfast.guards.http import Door
def application(environ, start): ...
"""
BUCKET = """\
import boto3
boto3.client("s3", endpoint_url="http://localhost:9000").create_bucket(Bucket="reports")
"""
MARIADB = """\
import atexit, pymysql
from lockfast.guards.mysql import install
connection = pymysql.connect(
    host="localhost", port=3306, user="root", password="secret", database="app"
)
atexit.register(connection.close)
install(connection)
with connection.cursor() as cursor:
    cursor.execute("CREATE USER IF NOT EXISTS app")
    cursor.execute("CREATE OR REPLACE TABLE invoices (id INT PRIMARY KEY, paid BOOL)")
    cursor.execute("INSERT INTO invoices VALUES (42, false)")
connection.commit()
"""
SIGNED = """\
import json, subprocess
from lockfast.service.signing import Signing
make = ["openssl", "genpkey", "-algorithm", "ed25519"]
service = Signing(subprocess.run(make, capture_output=True, check=True).stdout)
jwks = json.loads(service.jwks)
claim = {"lock": "invoice:42", "token": "7", "id": "a" * 32, "aud": "https://billing.example.com"}
signed = service.sign(claim)
"""
PRELUDES = {
    "lockfast.guards.mysql": MARIADB,
    "lockfast.guards.postgres": INVOICES,
    "lockfast.guards.sqlalchemy": INVOICES
    + "from sqlalchemy import create_engine, text\nfrom sqlalchemy.orm import Session\n"
    + "from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine\n",
    "lockfast.guards.django": INVOICES + DJANGO,
    "lockfast.guards.redis": "import redis, redis.asyncio\n",
    "lockfast.guards.http.httpx": "import httpx\n" + SERVICE,
    "lockfast.guards.http.requests": "import requests\n" + SERVICE,
    "lockfast.guards.http.asgi": APPLICATION,
    "lockfast.guards.http.wsgi": APPLICATION,
    "lockfast.guards.http": APPLICATION,
    "lockfast.guards.signed": SIGNED,
    "lockfast.guards.objects": "import aiobotocore.session\n" + BUCKET,
    "lockfast.integrations.celery": "from celery import Celery\napp = Celery()\n",
    "lockfast.integrations.apscheduler": (
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
    ),
    "lockfast.integrations.starlette": (
        "from contextlib import asynccontextmanager\nfrom starlette.applications import Starlette\n"
    ),
}
"""By the module of the example: the one with the longest name counts."""


def program(module: str, example: str) -> str:
    """Return a program that runs an example of a module. An `await` needs an asyncio client."""
    names = "" if module == "lockfast" else f"from {module} import *\n"
    found = [key for key in PRELUDES if f"{module}.".startswith(f"{key}.")]
    before = START + names + (PRELUDES[max(found, key=len)] if found else "")
    if "\nawait " in f"\n{example}" or "\nasync with " in f"\n{example}" or "= await " in example:
        return before + TASKS.format(body=textwrap.indent(example, "    "))
    return before + THREADS + example
