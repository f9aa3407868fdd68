"""The object store's guard for threads and asyncio: the logic is one coroutine each."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import ClientError

from lockfast.errors import EngineRefused, StaleToken
from lockfast.guards.mark import Holder, Mark, admit, refused, shown
from lockfast.guards.objects.envelope import HEAD, Envelope, pack, seal, unpack
from lockfast.runtime.aio import Aio
from lockfast.runtime.drive import blocking
from lockfast.runtime.threads import Threads

TRIES = 100
"""Each lost round means that somebody else won one; so many in a row mean that the store lies."""
PAUSE = 0.02  # seconds before a try after a 409: the store is still busy with another's put
MISSING, CONFLICT, CHANGED = 404, 409, 412
REMEMBERED = 1024  # keys of which a guard knows its own last write


class S3(Protocol):
    """A client of boto3 or aiobotocore."""

    @property
    def get_object(self) -> Callable[..., Any]:
        """Read an object."""

    @property
    def put_object(self) -> Callable[..., Any]:
        """Write an object, perhaps on a condition."""


class Found(NamedTuple):
    """What a read found: a state, and the ETag by which a put names it."""

    envelope: Envelope
    etag: str


class ObjectGuardCore:
    """What the guard does in threads and asyncio."""

    _tasks: bool

    def __init__(self, client: S3, bucket: str) -> None:
        """Nothing is sent."""
        if hasattr(client, "__aenter__") is not self._tasks:
            other = "ObjectGuard" if self._tasks else "AsyncObjectGuard"
            kind = "a blocking" if self._tasks else "an asyncio"
            raise TypeError(f"this is {kind} client: use {other}")
        self._client = client
        self._bucket = bucket
        self._runtime = Aio() if self._tasks else Threads()
        self._proven = False
        self._known: dict[str, Found] = {}
        """What this guard wrote last: a holder's next put needs no read before it."""

    async def _get(self, key: str) -> bytes | None:
        """Read an object's body; None if there is none, or it was deleted."""
        found = await self._fetch(key)
        return None if found is None or found.envelope.gone else found.envelope.body

    async def _seal(self, lease: Holder, key: str) -> bytes | None:
        """Raise the mark, and give the body as it is from then on; None if there is none.

        A new holder does this before its first read, or in its place. It writes the object anew.
        """
        kept: bytes | None = None

        def keep(found: Envelope | None) -> bytes | None:
            nonlocal kept
            kept = None if found is None or found.gone else found.body
            return kept

        await self._write(lease, key, keep, whole=True)
        return kept

    async def _put(self, lease: Holder, key: str, body: bytes) -> None:
        """Write an object, or raise `StaleToken` and write nothing."""
        await self._write(lease, key, lambda _: body)

    async def _delete(self, lease: Holder, key: str) -> None:
        """Write a tombstone: a real DELETE would delete the mark, and reopen the door."""
        await self._write(lease, key, lambda _: None)

    async def _put_all(self, lease: Holder, key: str, parts: Mapping[str, bytes]) -> None:
        """Write several objects that change together: all are new at once, or none is.

        The parts are written first, under keys that nobody knows; then the object at `key`, a
        manifest that names them. What a refused or crashed writer leaves is named by no manifest.
        """
        batch = secrets.token_hex(16)
        keys = {name: f"{key}.parts/{batch}/{number}" for number, name in enumerate(parts)}
        shown(lease)  # a permit is refused before anything is written
        for name, part in parts.items():
            await self._store(keys[name], part)
        await self._put(lease, key, json.dumps(keys).encode())

    async def _get_all(self, key: str) -> dict[str, bytes] | None:
        """Read the objects of a manifest; None if there is none, or it was deleted."""
        manifest = await self._get(key)
        if manifest is None:
            return None
        read = {name: await self._read(part) for name, part in json.loads(manifest).items()}
        missing = [name for name, each in read.items() if each is None]
        if missing:
            raise KeyError(f"parts of {key!r} were deleted while their manifest names them")
        return {name: each[0] for name, each in read.items() if each is not None}

    async def _check(self, key: str) -> None:
        """Raise unless the store honours conditions. `key`: an object of no other use.

        A store, or a proxy in front of it, that ignores `If-Match` accepts every stale put.
        """
        for condition in ({}, {"IfNoneMatch": "*"}, {"IfMatch": '"0"'}):
            status, _ = await self._store(key, b"lockfast: are conditions honoured?", **condition)
            if condition and status != CHANGED:
                raise self._ignores(next(iter(condition)))
        self._proven = True

    async def _probe(self, key: str, data: bytes, **condition: str) -> None:
        """Put what is put anyway on a condition that is false, and raise if the store accepts it.

        With the first write of a guard, since nobody runs `check` by hand. A store that honours
        conditions changes nothing; one that ignores them gets nothing but that write.
        """
        if not self._proven:
            status, _ = await self._store(key, data, **condition)
            if status not in (MISSING, CONFLICT, CHANGED):
                raise self._ignores(next(iter(condition)))

    def _ignores(self, condition: str) -> EngineRefused:
        return EngineRefused(
            f"the object store of {self._bucket!r} ignores {condition}: a guard there would refuse "
            "nothing"
        )

    async def _write(
        self,
        lease: Holder,
        key: str,
        change: Callable[[Envelope | None], bytes | None],
        *,
        whole: bool = False,
    ) -> None:
        """Read, decide, and put on the condition that nothing changed since; until it did not."""
        at = shown(lease)
        sent: Envelope | None = None
        known = self._known.get(key)
        if whole or known is None or known.envelope.mark != at.seal:
            known = None  # to refuse somebody, it is read what stands now
        for _ in range(TRIES):
            found = known or await self._fetch(key, whole=whole)
            known = None  # if that was wrong, the put is refused, and the next round reads
            if found is not None and sent is not None and found.envelope.nonce == sent.nonce:
                return  # the put was applied, and its reply was lost
            mark = self._admit(lease, key, found)
            body = change(None if found is None else found.envelope)
            if whole and found is not None and mark == found.envelope.mark:
                return  # sealed already
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
        raise EngineRefused(f"{TRIES} puts of {key!r} in a row met another's: is its ETag stable?")

    def _admit(self, lease: Holder, key: str, found: Found | None) -> Mark:
        at = shown(lease)
        if found is not None and found.envelope.name != at.name:
            raise ValueError(
                f"{key!r} is guarded by the lock {found.envelope.name!r}, not {at.name!r}: "
                "tokens of two locks do not compare"
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
        """Return a body and its ETag; None if there is no such object."""
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
        """Put; give the status and the ETag."""
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
    """Read the status of an error; 0 where it means something else than usual."""
    if error.response["Error"].get("Code") == "NoSuchBucket":
        return 0
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


class ObjectGuard(ObjectGuardCore):
    """Guards objects of a bucket, with boto3's client. Every object has its own mark.

    The store must honour `If-Match` and `If-None-Match`: the first write finds out, or `check`.
    """

    _tasks = False

    get = blocking(ObjectGuardCore._get)
    seal = blocking(ObjectGuardCore._seal)
    put = blocking(ObjectGuardCore._put)
    delete = blocking(ObjectGuardCore._delete)
    put_all = blocking(ObjectGuardCore._put_all)
    get_all = blocking(ObjectGuardCore._get_all)
    check = blocking(ObjectGuardCore._check)


class AsyncObjectGuard(ObjectGuardCore):
    """Guards objects of a bucket, with aiobotocore's client. All else as `ObjectGuard`."""

    _tasks = True

    get = ObjectGuardCore._get
    seal = ObjectGuardCore._seal
    put = ObjectGuardCore._put
    delete = ObjectGuardCore._delete
    put_all = ObjectGuardCore._put_all
    get_all = ObjectGuardCore._get_all
    check = ObjectGuardCore._check
