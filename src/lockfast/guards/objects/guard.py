"""The object guard for threads and asyncio. Both share the coroutines of `ObjectGuardCore`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

from lockfast.guards.mark import Holder, shown
from lockfast.guards.objects.conditional_puts import CHANGED, ConditionalPuts
from lockfast.guards.objects.envelope import Envelope
from lockfast.runtime.drive import blocking


class ObjectGuardCore(ConditionalPuts):
    """The shared part of the sync and async guards."""

    async def _get(self, key: str) -> bytes | None:
        """Return the body of an object.

        Args:
            key: The key of the object.

        Returns:
            The body, or None if the object does not exist or was deleted.

        Raises:
            ValueError: The object was not written by a guard.
            botocore.exceptions.ClientError: The store has failed.
        """
        found = await self._fetch(key)
        return None if found is None or found.envelope.gone else found.envelope.body

    async def _seal(self, lease: Holder, key: str) -> bytes | None:
        """Store the token, so that the object rejects earlier holders, and return the body.

        Call it right after acquiring, instead of the first read. It rewrites the object.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            key: The key of the object.

        Returns:
            The body, or None if the object does not exist or was deleted.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            EngineRefused: The store ignores conditions, or reports changes without end.
            ValueError: The object was not written by a guard, or is guarded by another lock.
            TypeError: The lease is a permit of a semaphore.
            botocore.exceptions.ClientError: The store has failed.
        """
        kept: bytes | None = None

        def keep(found: Envelope | None) -> bytes | None:
            nonlocal kept
            kept = None if found is None or found.gone else found.body
            return kept

        await self._write(lease, key, keep, whole=True)
        return kept

    async def _put(self, lease: Holder, key: str, body: bytes) -> None:
        """Write an object, or raise `StaleToken` and write nothing.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            key: The key of the object.
            body: The new body.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            EngineRefused: The store ignores conditions, or reports changes without end.
            ValueError: The object was not written by a guard, or is guarded by another lock.
            TypeError: The lease is a permit of a semaphore.
            botocore.exceptions.ClientError: The store has failed.
        """
        await self._write(lease, key, lambda _: body)

    async def _delete(self, lease: Holder, key: str) -> None:
        """Mark an object as deleted, or raise `StaleToken` and change nothing.

        It stays in the bucket as a small object with its mark. A real DELETE would delete the mark
        too, and a stale holder could then write again.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            key: The key of the object.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            EngineRefused: The store ignores conditions, or reports changes without end.
            ValueError: The object was not written by a guard, or is guarded by another lock.
            TypeError: The lease is a permit of a semaphore.
            botocore.exceptions.ClientError: The store has failed.
        """
        await self._write(lease, key, lambda _: None)

    async def _put_all(self, lease: Holder, key: str, parts: Mapping[str, bytes]) -> None:
        """Write several objects that change together, all or none.

        It writes the parts under new random keys first, and then a manifest at `key` that lists
        those keys. If the writer is rejected or crashes, its parts stay in the bucket, but no
        manifest lists them.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            key: The key of the manifest.
            parts: The bodies, by names of your own.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            EngineRefused: The store ignores conditions, or reports changes without end.
            ValueError: The object was not written by a guard, or is guarded by another lock.
            TypeError: The lease is a permit of a semaphore.
            botocore.exceptions.ClientError: The store has failed.
        """
        batch = secrets.token_hex(16)
        keys = {name: f"{key}.parts/{batch}/{number}" for number, name in enumerate(parts)}
        shown(lease)  # raises for the permit of a semaphore, before anything is written
        for name, part in parts.items():
            await self._store(keys[name], part)
        await self._put(lease, key, json.dumps(keys).encode())

    async def _get_all(self, key: str) -> dict[str, bytes] | None:
        """Return the objects that `put_all` wrote.

        Args:
            key: The key of the manifest.

        Returns:
            The bodies by name, or None if there is no manifest or it was deleted.

        Raises:
            KeyError: The manifest names an object that does not exist.
            ValueError: The manifest was not written by a guard.
            botocore.exceptions.ClientError: The store has failed.
        """
        manifest = await self._get(key)
        if manifest is None:
            return None
        read = {name: await self._read(part) for name, part in json.loads(manifest).items()}
        missing = [name for name, each in read.items() if each is None]
        if missing:
            raise KeyError(f"parts of {key!r} were deleted while their manifest names them")
        return {name: each[0] for name, each in read.items() if each is not None}

    async def _check(self, key: str) -> None:
        """Raise `EngineRefused` unless the store honours conditions.

        A store, or a proxy in front of it, that ignores `If-Match` would accept every stale put.

        Args:
            key: The key of an object that this test may overwrite.

        Raises:
            EngineRefused: The store ignores conditions.
            botocore.exceptions.ClientError: The store has failed.
        """
        for condition in ({}, {"IfNoneMatch": "*"}, {"IfMatch": '"0"'}):
            status, _ = await self._store(key, b"lockfast: are conditions honoured?", **condition)
            if condition and status != CHANGED:
                raise self._ignores(next(iter(condition)))
        self._proven = True


class ObjectGuard(ObjectGuardCore):
    """Rejects writes to objects by a process that has lost its lock. For clients of boto3.

    Every object has a mark of its own. The store must honour `If-Match` and `If-None-Match`. The
    first write tests that, and so does `check`.

    Args:
        client: A client of boto3 for S3.
        bucket: The name of the bucket.

    Raises:
        TypeError: It is a client of aiobotocore.

    Example:
        ::

            store = boto3.client("s3", endpoint_url="http://localhost:9000")
            guard = ObjectGuard(store, "reports")
            with client.lock("report", ttl=10) as lease:
                before = guard.seal(lease, "2026/report") or b""
                guard.put(lease, "2026/report", before + b"one more line")
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
    """Rejects writes to objects by a process that has lost its lock. For clients of aiobotocore.

    Its methods are those of `ObjectGuard`, as coroutines.

    Args:
        client: A client of aiobotocore for S3.
        bucket: The name of the bucket.

    Raises:
        TypeError: It is a client of boto3.

    Example:
        ::

            session = aiobotocore.session.get_session()
            async with session.create_client("s3", endpoint_url="http://localhost:9000") as store:
                guard = AsyncObjectGuard(store, "reports")
                async with client.lock("report", ttl=10) as lease:
                    before = await guard.seal(lease, "2026/report") or b""
                    await guard.put(lease, "2026/report", before + b"one more line")
    """

    _tasks = True

    get = ObjectGuardCore._get
    seal = ObjectGuardCore._seal
    put = ObjectGuardCore._put
    delete = ObjectGuardCore._delete
    put_all = ObjectGuardCore._put_all
    get_all = ObjectGuardCore._get_all
    check = ObjectGuardCore._check
