"""An etcd cluster of three members: real processes, with TLS and passwords where asked for."""

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import quote

from tests.servers.certificates import Certificates
from tests.servers.group import Group
from tests.servers.process import (
    Home,
    Server,
    ServerError,
    address_of,
    free_port,
    program,
    spread,
    wait_until,
)


def encoded(text: str | bytes) -> str:
    """Write bytes as the gateway wants them."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


class Etcd(Server):
    """One member. Its commands go through etcd's gateway: HTTP and JSON, no code of lockfast's."""

    def __init__(
        self,
        number: int,
        options: Sequence[str],
        certificates: Certificates | None,
        home: Home | None = None,
    ) -> None:
        """Choose the ports, which stay the same when the member is restarted."""
        super().__init__(f"etcd{number}", home=home)
        self.host = address_of(home)
        self.port, self.peer_port = free_port(), free_port()
        self._options = list(options)
        self.certificates = certificates
        self.mutual = False
        self.cluster = ""
        self.password: str | None = None

    @property
    def address(self) -> str:
        """The host and port, as host:port."""
        return f"{self.host}:{self.port}"

    @property
    def peer(self) -> str:
        """Where the other members find it."""
        return f"http://{self.host}:{self.peer_port}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        scheme = "http" if self.certificates is None else "https"
        client = f"{scheme}://{self.address}"
        tls = self.certificates
        return [
            *(program("etcd"), "--name", self.name, "--data-dir", str(self.folder / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer),
            *("--initial-cluster", self.cluster, "--log-level", "error"),
            *(
                ()
                if tls is None
                else ("--cert-file", str(tls.certificate_path), "--key-file", str(tls.key_path))
            ),
            *(
                ("--client-cert-auth", "--trusted-ca-file", str(tls.ca_path))
                if tls is not None and self.mutual
                else ()
            ),
            *self._options,
        ]

    def post(self, path: str, timeout: float = 5.0, **body: object) -> dict[str, Any]:
        """Run one command, as root where there are users; what etcd refuses is a ServerError."""
        if self.password is None:
            return self._post(path, timeout, body, None)
        login = self._post(
            "auth/authenticate", timeout, {"name": "root", "password": self.password}, None
        )
        return self._post(path, timeout, body, login["token"])

    def _post(
        self, path: str, timeout: float, body: dict[str, object], token: str | None
    ) -> dict[str, Any]:
        connection: http.client.HTTPConnection
        if self.certificates is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        else:
            files = self.certificates
            context = ssl.create_default_context(cafile=str(files.ca_path))
            context.load_cert_chain(files.certificate_path, files.key_path)
            connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout, context=context
            )
        headers = {} if token is None else {"Authorization": token}
        try:
            connection.request("POST", f"/v3/{path}", json.dumps(body), headers)
            reply = connection.getresponse()
            said: dict[str, Any] = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            raise ServerError(f"{path}: {said}")
        return said

    def is_ready(self) -> bool:
        """Tell whether it serves, which takes a majority of the members."""
        try:
            return int(self.post("maintenance/status", 1.0).get("leader", 0)) != 0
        except (ServerError, http.client.HTTPException, json.JSONDecodeError):
            return False

    def leads(self) -> bool:
        """Tell whether it is the leader, as it sees it."""
        try:
            said = self.post("maintenance/status", 0.5)
        except (OSError, ServerError, http.client.HTTPException):
            return False
        return bool(said.get("leader") == said["header"]["member_id"])

    def version(self) -> str:
        """Tell its version."""
        return str(self.post("maintenance/status")["version"])

    def revision(self) -> int:
        """Tell the revision of the store."""
        return int(self.post("maintenance/status")["header"]["revision"])

    def leases(self) -> list[int]:
        """List the leases."""
        return [int(each["ID"]) for each in self.post("lease/leases").get("leases", [])]

    def compact(self) -> None:
        """Forget every revision but the present one."""
        self.post("kv/compaction", revision=str(self.revision()), physical=True)

    def wipe(self) -> None:
        """Delete everything that lockfast has written."""
        self.post("kv/deleterange", key=encoded("lockfast/"), range_end=encoded("lockfast0"))


class EtcdCluster(Group):
    """Members of one cluster. `with` starts them all."""

    def __init__(  # noqa: PLR0913  # each is one independent option of a cluster
        self,
        members: int = 3,
        *,
        tls: bool | Certificates = False,
        mutual: bool = False,
        password: str | None = None,
        heartbeat: int = 50,
        election: int = 500,
        options: Sequence[str] = (),
        homes: Sequence[Home] | None = None,
    ) -> None:
        """Times are in milliseconds: with the default ones etcd has no lease below 2 s.

        The members show the certificates that are given as tls. With mutual TLS, they demand one,
        and the url names the one of theirs.
        """
        times = ("--heartbeat-interval", str(heartbeat), "--election-timeout", str(election))
        self.nodes = [
            Etcd(number, [*times, *options], None, home)
            for number, home in enumerate(spread(homes, members))
        ]
        if tls:
            certificates = Certificates(self.nodes[0].folder) if tls is True else tls
            for node in self.nodes:
                node.certificates = certificates
                node.mutual = mutual
        self.password = password
        for node in self.nodes:
            node.cluster = ",".join(f"{each.name}={each.peer}" for each in self.nodes)

    @property
    def url(self) -> str:
        """The address for a client."""
        login = "" if self.password is None else f"app:{quote(self.password, safe='')}@"
        hosts = ",".join(node.address for node in self.nodes)
        tls = self.nodes[0].certificates
        if tls is None:
            return f"etcd://{login}{hosts}"
        url = f"etcds://{login}{hosts}?ssl_ca_certs={tls.ca_path}"
        if not self.nodes[0].mutual:
            return url
        return f"{url}&ssl_certfile={tls.certificate_path}&ssl_keyfile={tls.key_path}"

    def start(self) -> Self:
        """Start them at once, since none serves without a majority."""
        starters = [threading.Thread(target=node.start) for node in self.nodes]
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join()
        self.leader()
        if self.password is not None:
            self._lock_up(self.password)
        return self

    def _lock_up(self, password: str) -> None:
        node = self.leader()
        for user in ("root", "app"):
            node.post("auth/user/add", name=user, password=password)
        node.post("auth/role/add", name="lockfast")
        node.post(
            "auth/role/grant",
            name="lockfast",
            perm={
                "permType": "READWRITE",
                "key": encoded("lockfast/"),
                "range_end": encoded("lockfast0"),
            },
        )
        node.post("auth/role/add", name="root")
        node.post("auth/user/grant", user="root", role="root")
        node.post("auth/user/grant", user="app", role="lockfast")
        node.post("auth/enable")
        for each in self.nodes:
            each.password = password

    def leader(self, timeout: float = 10.0) -> Etcd:
        """Tell the leader; wait until there is one."""
        found: list[Etcd] = []

        def look() -> bool:
            found[:] = [node for node in self.nodes if node.alive and node.leads()]
            return len(found) == 1

        wait_until(look, "there is one leader", timeout)
        return found[0]

    def followers(self) -> list[Etcd]:
        """Tell the others that run."""
        leader = self.leader()
        return [node for node in self.nodes if node.alive and node is not leader]

    def wipe(self) -> None:
        """Delete everything that lockfast has written."""
        next(node for node in self.nodes if node.alive).wipe()

    def close(self) -> None:
        """End them all."""
        for node in self.nodes:
            node.kill()
            node.close()
