"""Conditional puts: write an object only if it has not changed since its mark was checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import ClientError

from lockfast.errors import EngineRefused, StaleToken
from lockfast.guards.mark import Holder, Mark, admit, refused, shown
from lockfast.guards.objects.envelope import HEAD, Envelope, pack, seal, unpack
from lockfast.runtime.aio import Aio
from lockfast.runtime.threads import Threads

TRIES = 100
"""Attempts to write. An attempt fails if another client has written in between. If so many fail in
a row, the store reports changes that did not happen."""
PAUSE = 0.02  # seconds before another attempt after a 409: the store is busy with another put
MISSING, CONFLICT, CHANGED = 404, 409, 412
REMEMBERED = 1024  # keys for which a guard remembers its last write


class S3(Protocol):
    """A client of boto3 or aiobotocore."""

    @property
    def get_object(self) -> Callable[..., Any]:
        """Read an object."""

    @property
    def put_object(self) -> Callable[..., Any]:
        """Write an object, perhaps with a condition."""


class Found(NamedTuple):
    """The state of an object, and its ETag for the condition of the next put."""

    envelope: Envelope
    etag: str


class ConditionalPuts:
    """Reads and writes guarded objects of one bucket. The base of the sync and async guards."""

    _tasks: bool

    def __init__(self, client: S3, bucket: str) -> None:
        """Take the client and the name of the bucket. Nothing is sent."""
        if hasattr(client, "__aenter__") is not self._tasks:
            other = "ObjectGuard" if self._tasks else "AsyncObjectGuard"
            kind = "a blocking" if self._tasks else "an asyncio"
            raise TypeError(f"this is {kind} client: use {other}")
        self._client = client
        self._bucket = bucket
        self._runtime = Aio() if self._tasks else Threads()
        self._proven = False
        self._known: dict[str, Found] = {}
        """The last write of this guard to each key. The holder's next put needs no read before."""

    async def _probe(self, key: str, data: bytes, **condition: str) -> None:
        """Put `data` with a condition that is false, and raise if the store accepts it.

        The first write of a guard does this, because few users call `check`. A store that honours
        conditions changes nothing. One that ignores them stores only what would be written anyway.
        """
        if not self._proven:
            status, _ = await self._store(key, data, **condition)
            if status not in (MISSING, CONFLICT, CHANGED):
                raise self._ignores(next(iter(condition)))

    def _ignores(self, condition: str) -> EngineRefused:
        return EngineRefused(
            f"the object store of {self._bucket!r} ignores {condition}, so a guard cannot reject "
            "stale writes there"
        )

    async def _write(
        self,
        lease: Holder,
        key: str,
        change: Callable[[Envelope | None], bytes | None],
        *,
        whole: bool = False,
    ) -> None:
        """Read the object, check its mark, and put on condition that it has not changed since.

        If it has changed, start again. `change` returns the new body for the present state.
        `whole`: read the whole object and not only its first line.
        """
        at = shown(lease)
        sent: Envelope | None = None
        known = self._known.get(key)
        if whole or known is None or known.envelope.mark != at.seal:
            known = None  # a decision about another mark needs the present state of the object
        for _ in range(TRIES):
            found = known or await self._fetch(key, whole=whole)
            known = None  # if it was out of date, the store rejects the put, and the next try reads
            if found is not None and sent is not None and found.envelope.nonce == sent.nonce:
                return  # the previous put was applied, but its reply was lost
            mark = self._admit(lease, key, found)
            body = change(None if found is None else found.envelope)
            if whole and found is not None and mark == found.envelope.mark:
                return  # this claim has already sealed the object
            sent = seal(at.name, mark, body)
            condition = {"IfNoneMatch": "*"} if found is None else {"IfMatch": found.etag}
            data = pack(sent)
            await self._probe(key, data, IfMatch='"0"')
            status, etag = await self._store(key, data, **condition)
            if status not in (MISSING, CONFLICT, CHANGED):
                await self._probe(key, data, IfNoneMatch="*")
                self._proven = True
                self._remember(key, Found(sent._replace(body=b""), etag))
                return
            if status == CONFLICT:
                await self._runtime.sleep(PAUSE)
        raise EngineRefused(
            f"{TRIES} puts of {key!r} in a row found that the object had changed. Check whether "
            "the store returns another ETag for each read."
        )

    def _admit(self, lease: Holder, key: str, found: Found | None) -> Mark:
        at = shown(lease)
        if found is not None and found.envelope.name != at.name:
            raise ValueError(
                f"{key!r} is guarded by the lock {found.envelope.name!r}, not {at.name!r}: "
                "the tokens of different locks cannot be compared"
            )
        try:
            return admit(None if found is None else found.envelope.mark, at)
        except StaleToken as stale:
            raise refused(lease, stale.current) from None

    def _remember(self, key: str, found: Found) -> None:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = found

    async def _fetch(self, key: str, *, whole: bool = True) -> Found | None:
        read = await self._read(key, **({} if whole else {"Range": f"bytes=0-{HEAD - 1}"}))
        return None if read is None else Found(unpack(read[0]), read[1])

    async def _read(self, key: str, **how: str) -> tuple[bytes, str] | None:
        """Return the content of an object and its ETag, or None if it does not exist."""
        try:
            reply: Any = self._client.get_object(Bucket=self._bucket, Key=key, **how)
            if self._tasks:
                reply = await reply
            data: Any = reply["Body"].read()
            if self._tasks:
                data = await data
        except ClientError as error:
            if _status(error) != MISSING:
                raise
            return None
        return data, reply["ETag"]

    async def _store(self, key: str, data: bytes, **condition: str) -> tuple[int, str]:
        """Put an object, and return the HTTP status and the ETag."""
        try:
            reply: Any = self._client.put_object(
                Bucket=self._bucket, Key=key, Body=data, **condition
            )
            if self._tasks:
                reply = await reply
        except ClientError as error:
            if not condition or _status(error) not in (MISSING, CONFLICT, CHANGED):
                raise
            return _status(error), ""
        return 200, reply["ETag"]


def _status(error: ClientError) -> int:
    """Return the HTTP status of an error. 0 for a missing bucket, which must not look like a
    missing object.
    """
    if error.response["Error"].get("Code") == "NoSuchBucket":
        return 0
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
