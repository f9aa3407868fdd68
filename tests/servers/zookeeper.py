"""ZooKeeper: real processes, alone or as an ensemble of three."""

import contextlib
import os
import socket
import struct
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

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

# Its manifest names the others, all but one that TLS needs and one that writes its log.
_JARS = ":".join(
    f"/usr/share/java/{name}.jar" for name in ("zookeeper", "netty-codec", "slf4j-simple")
)
_JVM = ("-Xmx64m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ZooKeeper(Server):
    """One ZooKeeper server; alone unless its ensemble tells it of the others."""

    def __init__(  # noqa: PLR0913  # each is one independent option of a server
        self,
        *,
        tick: int = 100,
        config: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        certificates: Certificates | None = None,
        env: Mapping[str, str] | None = None,
        home: Home | None = None,
    ) -> None:
        """Write the configuration; config is further lines of it, properties are Java's."""
        super().__init__("zookeeper", env=env, home=home)
        self.certificates = certificates
        self.secure_port = free_port()
        self.host = address_of(home)
        self.port = free_port()
        self.quorum_port, self.election_port = free_port(), free_port()
        self.data_path = self.folder / "data"
        self.data_path.mkdir()
        self._config_path = self.folder / "zoo.cfg"
        self._properties = {
            "zookeeper.admin.enableServer": "false",
            "zookeeper.forceSync": "no",  # what a power cut would cost is no part of the tests
            "zookeeper.extendedTypesEnabled": "true",
            "org.slf4j.simpleLogger.showDateTime": "true",
            "org.slf4j.simpleLogger.dateTimeFormat": "HH:mm:ss.SSS",
            **(properties or {}),
        }
        self._lines = {
            "tickTime": str(tick),
            "initLimit": "50",
            "syncLimit": "20",
            "dataDir": str(self.data_path),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "minSessionTimeout": str(2 * tick),
            "maxSessionTimeout": "4000000",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "srvr,ruok,mntr",
            **(config or {}),
        }
        if certificates is not None:
            self._secure(certificates)
        self._write()

    def _secure(self, files: Certificates) -> None:
        """Speak TLS too, on a port of its own."""
        self.show(files)
        netty = "org.apache.zookeeper.server.NettyServerCnxnFactory"
        self._properties["zookeeper.serverCnxnFactory"] = netty
        self._lines |= {
            "secureClientPort": str(self.secure_port),
            "secureClientPortAddress": self.host,
            "ssl.keyStore.location": str(self.folder / "server.pem"),
            "ssl.trustStore.location": str(files.ca_path),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "none",
        }

    def show(self, files: Certificates) -> None:
        """Show these certificates, from the next start on."""
        store = self.folder / "server.pem"
        store.write_bytes(files.key_path.read_bytes() + files.certificate_path.read_bytes())

    def join(self, number: int, members: list["ZooKeeper"]) -> None:
        """Be one of an ensemble."""
        (self.data_path / "myid").write_text(str(number), encoding="ascii")
        for place, each in enumerate(members, 1):
            ports = f"{each.quorum_port}:{each.election_port}"
            self._lines[f"server.{place}"] = f"{each.host}:{ports}"
        self._write()

    def configure(self, **lines: str) -> None:
        """Change lines of the configuration, for the next start."""
        self._lines |= lines
        self._write()

    def _write(self) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self._lines.items())
        self._config_path.write_text(text, encoding="utf-8")

    @property
    def address(self) -> str:
        """The host and port, as host:port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address for a client."""
        return f"zookeeper://{self.address}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [
            *(program("java"), *_JVM),
            *(f"-D{name}={value}" for name, value in self._properties.items()),
            *("-cp", os.environ.get("LOCKFAST_ZOOKEEPER_JARS") or _JARS),
            *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._config_path)),
        ]

    def command(self, word: str) -> str:
        """Send one of the four-letter words."""
        with socket.create_connection((self.host, self.port), timeout=2.0) as connection:
            connection.sendall(word.encode())
            parts = []
            while part := connection.recv(4096):
                parts.append(part)
        return b"".join(parts).decode()

    def mode(self) -> str:
        """Tell its part: standalone, leader, follower, or nothing yet."""
        with contextlib.suppress(OSError):
            for line in self.command("srvr").splitlines():
                name, _, value = line.partition(": ")
                if name == "Mode":
                    return value
        return ""

    def is_ready(self) -> bool:
        """Tell whether it serves."""
        return bool(self.mode())

    def set_counter(self, path: str, value: int) -> None:
        """Restart with another number of children ever created below a node, which is what names
        sequential nodes. There is no request for it, so the snapshot is edited; start the server
        with `zookeeper.digest.enabled` false.
        """
        self.stop()
        self.start(timeout=30.0)  # it writes a snapshot of everything
        self.stop()
        folder = self.data_path / "version-2"
        newest = max(folder.glob("snapshot.*"), key=lambda each: int(each.suffix[1:], 16))
        raw = bytearray(newest.read_bytes())
        name = path.encode()
        at = raw.index(struct.pack(">i", len(name)) + name) + 4 + len(name)
        (size,) = struct.unpack_from(">i", raw, at)
        # Behind the data: its ACL, four times and transactions of eight bytes, and a version.
        struct.pack_into(">i", raw, at + 4 + max(size, 0) + 8 + 32 + 4, value)
        seal = len(raw) - 13  # eight bytes of checksum, and the string "/"
        struct.pack_into(">q", raw, seal, zlib.adler32(bytes(raw[:seal])))
        newest.write_bytes(raw)
        self.start(timeout=30.0)


class ZooKeeperEnsemble(Group):
    """Three servers, of which any two go on. `with` starts them all."""

    def __init__(  # noqa: PLR0913  # each is one independent option of an ensemble
        self,
        size: int = 3,
        *,
        tick: int = 100,
        config: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        envs: Sequence[Mapping[str, str]] | None = None,
        homes: Sequence[Home] | None = None,
    ) -> None:
        """Write the configurations; envs are the environments of the servers, for ServerClock."""
        self.servers = [
            ZooKeeper(tick=tick, config=config, properties=properties, env=env, home=home)
            for env, home in zip(envs or [{}] * size, spread(homes, size), strict=True)
        ]
        for number, server in enumerate(self.servers, 1):
            server.join(number, self.servers)

    @property
    def url(self) -> str:
        """The address for a client: all of them."""
        return f"zookeeper://{','.join(server.address for server in self.servers)}"

    def start(self) -> Self:
        """Start those that do not run, and wait until all of them serve."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.start(timeout=30.0)
        return self

    def leader(self) -> ZooKeeper:
        """Tell who leads."""
        for server in self.servers:
            if server.alive and server.mode() == "leader":
                return server
        raise ServerError("nobody leads")

    def followers(self) -> list[ZooKeeper]:
        """Tell who follows."""
        return [each for each in self.servers if each.alive and each.mode() == "follower"]

    def wait_leader(self, timeout: float = 20.0) -> ZooKeeper:
        """Wait until somebody leads."""
        wait_until(partial(self._is_led), "somebody leads", timeout)
        return self.leader()

    def _is_led(self) -> bool:
        return any(each.alive and each.mode() == "leader" for each in self.servers)

    def close(self) -> None:
        """End them all."""
        for server in self.servers:
            server.kill()
            server.close()
