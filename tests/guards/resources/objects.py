"""A register in an object store. `where` is the endpoint; the bucket is there already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, ClassVar, TypeAlias

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lockfast.blocking.client import Lease
from lockfast.guards.objects import ObjectGuard

Client: TypeAlias = Any
"""boto3 makes its clients at run time."""
BUCKET = "guarded"
KEY = "story/register"
LOGIN: Any = {
    "region_name": "us-east-1",
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
}


def connect(where: str) -> Client:
    """Make a client for threads."""
    config = Config(s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=where, config=config, **LOGIN)


@contextmanager
def bucket(where: str) -> Iterator[Client]:
    """Make a client and the bucket."""
    with closing(connect(where)) as client:
        client.create_bucket(Bucket=BUCKET)
        yield client


def emptied(client: Client) -> Iterator[Client]:
    """Give a client, and empty the bucket afterwards."""
    yield client
    for each in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=each["Key"])


class ObjectRegister:
    """With boto3."""

    broken: ClassVar[tuple[type[Exception], ...]] = (BotoCoreError, ClientError)

    def __init__(self, where: str) -> None:
        self.client = connect(where)
        self.guard = ObjectGuard(self.client, BUCKET)

    def seal(self, lease: Lease) -> None:
        self.guard.seal(lease, KEY)

    def read(self, lease: Lease) -> str:
        found = self.guard.get(KEY)
        if found is None:
            found = self.client.get_object(Bucket=BUCKET, Key=KEY + " bare")["Body"].read()
        return found.decode()

    def write(self, lease: Lease, value: str) -> None:
        self.guard.put(lease, KEY, value.encode())

    def write_bare(self, lease: Lease, value: str) -> None:
        self.client.put_object(Bucket=BUCKET, Key=KEY + " bare", Body=value.encode())

    def close(self) -> None:
        self.client.close()
