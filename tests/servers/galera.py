"""A Galera cluster: MariaDB servers that certify every commit together."""

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import pymysql

from tests.servers.group import Group
from tests.servers.mariadb import MariaDB
from tests.servers.process import Home, wait_until

_PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so")
# A node is out when it was silent for a second, not for five: tests have no leases as long.
_OPTIONS = {
    "evs.keepalive_period": "PT0.2S",
    "evs.inactive_check_period": "PT0.2S",
    "evs.suspect_timeout": "PT1S",
    "evs.inactive_timeout": "PT3S",
    "evs.install_timeout": "PT3S",
    "gmcast.peer_timeout": "PT1S",
    # What a node that comes back is sent, so that none has to copy another's data meanwhile.
    "gcache.size": "64M",
}
_RECOVERED = re.compile(r"Recovered position: ?([0-9a-f-]+):(-?\d+)")
_UNKNOWN = ("00000000-0000-0000-0000-000000000000", -1)
_PATIENCE = 60.0


class GaleraNode(MariaDB):
    """One node, on a host of its own: its ports are those of every node."""

    def __init__(self, home: Home, homes: Sequence[Home], env: Mapping[str, str]) -> None:
        """Make its data, which it replaces by those of the others when it joins them."""
        options = ";".join(f"{name}={value}" for name, value in _OPTIONS.items())
        super().__init__(
            config={
                "binlog-format": "ROW",
                "innodb-autoinc-lock-mode": "2",
                "wsrep-on": "ON",
                "wsrep-provider": next(filter(os.path.exists, _PROVIDERS), _PROVIDERS[0]),
                "wsrep-provider-options": options,
                "wsrep-cluster-name": "lockfast",
                "wsrep-cluster-address": f"gcomm://{','.join(each.address for each in homes)}",
                "wsrep-node-address": home.address,
                "wsrep-sst-method": "rsync",
                # A conflict that the server retries by itself can end in half a reply.
                "wsrep-retry-autocommit": "0",
            },
            env=env,
            home=home,
        )
        self._begins = False
        self._position = ""
        self._recovered: tuple[str, int] | None = None

    def argv(self) -> list[str]:
        """Tell the command line."""
        known = [f"--wsrep-start-position={self._position}"] if self._position else []
        return [*super().argv(), *known, *(["--wsrep-new-cluster"] if self._begins else [])]

    def launch(self) -> None:
        """Start the process, after it was asked in a run of its own how far its data go: after a
        crash the file that says so does not, and the node would copy all data of another.
        """
        with self._changing:
            if not self.alive:
                uuid, number = self.recovered()
                self._position = "" if number < 0 else f"{uuid}:{number}"
                self._recovered = None
            super().launch()

    def begin(self, timeout: float = _PATIENCE) -> Self:
        """Start a cluster anew, from the data of this node."""
        self.forget_peers()
        state = self.data_path / "grastate.dat"
        if state.exists():  # it says no after a crash, because another may be ahead
            text = state.read_text("ascii").replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1")
            state.write_text(text, "ascii")
        self._begins = True
        try:
            return self.start(timeout)
        finally:
            self._begins = False

    def forget_peers(self) -> None:
        """Forget with whom it was a majority: after a crash it would wait for all of them."""
        (self.data_path / "gvwstate.dat").unlink(missing_ok=True)

    def recovered(self) -> tuple[str, int]:
        """Tell the cluster and the number of the last commit in the data of a node that is down."""
        if not (self.data_path / "grastate.dat").exists():
            return _UNKNOWN
        if self._recovered is not None:
            return self._recovered
        argv = [*MariaDB.argv(self), "--wsrep-recover", "--skip-networking"]
        done = subprocess.run(
            argv, cwd=self.folder, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        found = _RECOVERED.findall(done.stdout + done.stderr)
        self._recovered = (found[-1][0], int(found[-1][1])) if found else _UNKNOWN
        return self._recovered

    def state(self) -> dict[str, str]:
        """Tell what it says of the cluster, also when it takes no queries."""
        return dict(self.command("SHOW GLOBAL STATUS LIKE 'wsrep\\_%%'"))

    def is_ready(self) -> bool:
        """Tell whether it takes queries, and has all that the others have."""
        try:
            return is_synced(self.state())
        except pymysql.MySQLError:
            return False


def is_synced(said: dict[str, str]) -> bool:
    """Tell whether a node with this state takes queries, and has all that the others have."""
    return said.get("wsrep_ready") == "ON" and said.get("wsrep_local_state_comment") == "Synced"


class Galera(Group):
    """Several nodes."""

    def __init__(self, homes: Sequence[Home], envs: Sequence[Mapping[str, str]]) -> None:
        """Make them, each at its home."""
        self.nodes = [GaleraNode(home, homes, env) for home, env in zip(homes, envs, strict=True)]
        self.left = 0
        """How often a node has left the cluster by itself."""

    def start(self) -> Self:
        """Start the first, and let the others join it."""
        self.nodes[0].begin()
        for node in self.nodes[1:]:
            node.launch()
        self.wait_whole()
        return self

    def whole(self) -> bool:
        """Tell whether all are ready, and each sees all of them."""
        if not all(node.alive for node in self.nodes):
            return False
        try:
            states = [node.state() for node in self.nodes]
        except (OSError, pymysql.MySQLError):
            return False
        size = str(len(self.nodes))
        return all(is_synced(said) and said["wsrep_cluster_size"] == size for said in states)

    def wait_whole(self, timeout: float = _PATIENCE) -> None:
        """Wait until all are ready. A node that has left the cluster by itself is started anew.

        Galera 26.4.23 does that when it cannot read what another has sent ("Unsupported WS
        version: 0", seen after a partition). It runs on, and nobody but an operator brings it back.
        """
        wait_until(self._mended, "the cluster is whole", timeout)

    def bootstrap(self) -> None:
        """Do what an operator does when no majority is left: the most advanced node begins anew.

        A node that waits for the others is ended. Whatever it has, it has on its disk.
        """
        for node in self.nodes:
            node.kill()
            node.forget_peers()
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            known = list(pool.map(GaleraNode.recovered, self.nodes))
        first = max(zip(known, self.nodes, strict=True), key=lambda pair: pair[0][1])[1]
        first.begin()
        for node in self.nodes:
            node.launch()
        self.wait_whole()

    def close(self) -> None:
        """End all."""
        for node in self.nodes:
            node.close()

    def _mended(self) -> bool:
        for node in self.nodes:
            # One that starts does not answer yet.
            with contextlib.suppress(OSError, pymysql.MySQLError):
                if node.alive and node.state()["wsrep_cluster_status"] == "Disconnected":
                    self.left += 1
                    node.kill()
                    node.launch()
        return self.whole()
