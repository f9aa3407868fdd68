"""A network: a bridge, which carries an address of the harness's own, and hosts on it."""

import atexit
import contextlib
import os
import re
import socket
from typing import Self

from tests.robustness.hosts.host import Host
from tests.robustness.hosts.ip import ip, links, spaces
from tests.servers.group import Group
from tests.servers.process import ServerError

# 198.18.0.0/15 is kept for tests of networks (RFC 2544), so no neighbour of the machine has it.
# Network n is 198.18.n.0/24, and all its names begin with the same prefix.
_NETWORKS = range(256)
_HOSTS = 50  # at most, with the bridge
_OURS = re.compile(r"lf(\d+)[-bv]")


class Network(Group):
    """One network of this process. `with` makes it, and leaves nothing behind.

    Its number is claimed by an abstract socket, which the kernel frees however the process ends.
    Whatever bears a number that nobody claims was left by one that was killed, and is removed.
    """

    def __init__(self) -> None:
        """Claim a number; the bridge comes with start()."""
        sweep()
        self.number, self._claim = _claimed()
        self.address = f"198.18.{self.number}.1"
        self.hosts: list[Host] = []
        self._bridge = f"lf{self.number}b"

    @property
    def addresses(self) -> list[str]:
        """The addresses of the bridge and of the hosts, also of those that are yet to come."""
        return [f"198.18.{self.number}.{place}" for place in range(1, _HOSTS)]

    def start(self) -> Self:
        """Make the bridge."""
        _remove(self.number)
        _live.add(self)
        # With a hardware address of its own: else it takes the lowest of its ports', which
        # changes as hosts come, and those that had asked before would send into the void.
        mac = f"02:00:c6:12:{self.number:02x}:01"
        ip(
            f"link add {self._bridge} address {mac} type bridge",
            f"addr add {self.address}/24 dev {self._bridge}",
            f"link set {self._bridge} up",
        )
        return self

    def host(self) -> Host:
        """Make another host."""
        place = len(self.hosts) + 2
        made = Host(
            f"lf{self.number}-{place}",
            f"lf{self.number}v{place}",
            self._bridge,
            f"198.18.{self.number}.{place}",
        )
        self.hosts.append(made)
        return made

    def heal(self) -> None:
        """Undo all the damage to all hosts."""
        for host in self.hosts:
            if not host.whole:
                host.heal()

    def close(self) -> None:
        """Remove the hosts and the bridge."""
        if self in _live:
            _live.discard(self)
            _remove(self.number)
        self._claim.close()


def sweep() -> None:
    """Remove what processes have left that were killed."""
    found = filter(None, map(_OURS.match, [*spaces(), *links()]))
    for number in {int(each[1]) for each in found}:
        with contextlib.suppress(OSError), _claim(number):
            _remove(number)


def traces(number: int) -> set[tuple[str, int]]:
    """Tell what there is of a network: names, with ids that no later network of its number has."""
    found = [*spaces().items(), *links().items()]
    return {(name, each) for name, each in found if _is_of(number, name)}


def _is_of(number: int, name: str) -> bool:
    found = _OURS.match(name)
    return found is not None and int(found[1]) == number


def _remove(number: int) -> None:
    # The cables by name, and first: a namespace lives on while a process in it dies.
    cables = [f"link del {name}" for name in links() if _is_of(number, name)]
    rooms = [f"netns del {name}" for name in spaces() if _is_of(number, name)]
    if cables or rooms:
        ip(*cables, *rooms, force=True)


def _claim(number: int) -> socket.socket:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0lockfast-network-{number}")
    except BaseException:
        claim.close()
        raise
    return claim


def _claimed() -> tuple[int, socket.socket]:
    # From a place of this process's own, so that two that start together seldom meet.
    for step in _NETWORKS:
        number = (os.getpid() + step) % len(_NETWORKS)
        with contextlib.suppress(OSError):
            return number, _claim(number)
    raise ServerError("no network is free")


_live: set[Network] = set()


def _close_all() -> None:
    for network in list(_live):
        network.close()


# It runs before the servers are ended, which matters not: a namespace loses its name and its
# cable at once, and the rest of it when the last process in it has ended.
atexit.register(_close_all)
os.register_at_fork(after_in_child=_live.clear)
