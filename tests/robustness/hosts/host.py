"""A host: a network namespace with an address, which can be cut off, wholly or in part."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tests.robustness.hosts.ip import entering, filters, ip
from tests.servers.process import Server, ServerError

Undo: TypeAlias = Callable[[], None]


class Host:
    """One host of a network, which makes it. What damages it returns how to undo just that."""

    def __init__(self, name: str, link: str, bridge: str, address: str) -> None:
        """Make the namespace, and a cable from its eth0 to the bridge."""
        self.name = name
        self.address = address
        self._rules: list[list[str]] = []
        self._lock = threading.Lock()
        ip(
            f"netns add {name}",
            f"link add {link} type veth peer name eth0 netns {name}",
            f"link set {link} master {bridge} up",
        )
        up = (f"addr add {address}/24 dev eth0", "link set lo up", "link set eth0 up")
        ip(*up, space=name)

    def inside(self, argv: list[str]) -> list[str]:
        """Tell the command line that runs on this host."""
        return [*entering(self.name), *argv]

    def cut(self, *peers: "Host | str", incoming: bool = True, outgoing: bool = True) -> Undo:
        """Drop what comes in, what goes out, or both; from and to these peers, or everybody."""
        return self._damage("", peers, incoming=incoming, outgoing=outgoing)

    def refuse(self, *targets: str) -> Undo:
        """Reset connections from here to what listens at these addresses, host:port, and refuse new
        ones: whoever is on this host knows at once.
        """
        rules = [
            f"-A OUTPUT -p tcp -d {address} --dport {port} -j REJECT --reject-with tcp-reset"
            for address, port in (target.split(":") for target in targets)
        ]
        return self._ruled(rules)

    def forget(self, ports: Sequence[int], targets: Sequence[str], *, reset: bool) -> Undo:
        """Drop what belongs to the connections that go out from these ports to these hosts. With
        `reset`, whoever uses one on this host is told that it has ended.
        """
        verdict = "REJECT --reject-with tcp-reset" if reset else "DROP"
        rules = [
            rule
            for port in ports
            for target in targets
            for rule in (
                f"-A OUTPUT -p tcp -d {target} --sport {port} -j {verdict}",
                f"-A INPUT -p tcp -s {target} --dport {port} -j DROP",
            )
        ]
        return self._ruled(rules)

    def lossy(self, share: float) -> Undo:
        """Lose this share of the packets, both ways."""
        some = f" -m statistic --mode random --probability {share:.4f}"
        return self._damage(some, (), incoming=True, outgoing=True)

    def heal(self) -> None:
        """Undo all the damage to the network."""
        with self._lock:
            self._rules.clear()
            self._apply()

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self._rules

    def _damage(
        self, which: str, peers: "tuple[Host | str, ...]", *, incoming: bool, outgoing: bool
    ) -> Undo:
        addresses = [peer.address if isinstance(peer, Host) else peer for peer in peers]
        rules = []
        if incoming:
            sources = [f" -s {address}" for address in addresses] or [""]
            rules += [f"-A INPUT -i eth0{source}{which} -j DROP" for source in sources]
        if outgoing:
            targets = [f" -d {address}" for address in addresses] or [""]
            rules += [f"-A OUTPUT -o eth0{target}{which} -j DROP" for target in targets]
        return self._ruled(rules)

    def _ruled(self, rules: list[str]) -> Undo:
        with self._lock:
            self._rules.append(rules)
            self._apply()

        def undo() -> None:
            with self._lock:
                # By identity: an equal rule of another fault stays. After heal() it is gone.
                self._rules = [each for each in self._rules if each is not rules]
                self._apply()

        return undo

    def _apply(self) -> None:
        filters(self.name, [rule for rules in self._rules for rule in rules])


def host_of(server: Server) -> Host:
    """Tell the host that a server of a site runs on."""
    if not isinstance(server.home, Host):
        raise ServerError(f"{server.name} is not on a host of its own")
    return server.home
