"""Five Redis that know nothing of each other, for Redlock."""

import contextlib

from lockfast.engines.redlock import install
from lockfast.engines.redlock.messages import MEMBER
from tests.robustness.sites.redis import emptied, named
from tests.robustness.sites.site import COMMON, PASSWORD, PROXIED, USER, Site
from tests.servers.clock import ServerClock
from tests.servers.process import Server, wait_until
from tests.servers.redis import Redis
from tests.servers.redlock import url_of
from tests.servers.resp import ReplyError

_NODES = 5


class RedlockSite(Site):
    """Five nodes, each with a file that is synced before every reply."""

    name = "redlock"
    engine = "redlock"
    # None leads, so there is none to cut off but one of a minority.
    kinds = (
        *(kind for kind in (*COMMON, *PROXIED) if kind != "cut-leader"),
        *("cut-minority", "duplicate", "restart-empty", "clock-server", "clock-ahead"),
    )

    @property
    def url(self) -> str:
        """The addresses of the proxies."""
        return url_of(*self.nodes, addresses=[proxy.address for proxy in self.proxies])

    def version(self) -> str:
        """Ask one."""
        return named(self.nodes[0])

    def leader(self) -> Redis:
        """Tell the first: none leads."""
        return self.nodes[0]

    def peers(self, server: Server) -> list[Server]:
        """Tell that it talks with none."""
        del server
        return []

    def prepare(self) -> None:
        """Make them members."""
        install(self.url)

    def wipe(self, server: Server) -> None:
        """Remove the file of what was written."""
        emptied(server)

    def wait_sound(self) -> None:
        """Wait until four are members. A node that was restarted is none until it has joined
        again, and three that are none at once would need an operator.
        """
        wait_until(lambda: self._members() > _NODES // 2 + 1, "the nodes have joined", 20.0)

    def _members(self) -> int:
        count = 0
        for node in self.nodes:
            # One that is paused, cut off or dead counts as none.
            with contextlib.suppress(OSError, ReplyError), node.connect(0.5) as connection:
                info = connection.command("INFO", "server")
                assert isinstance(info, bytes)
                run = info.partition(b"run_id:")[2].split()[0]
                # After a restart with its data it still has the word of its last life.
                count += connection.command("GET", MEMBER) == b"M " + run
        return count

    def serves(self) -> bool:
        """Ask each."""
        return all(node.alive and node.is_ready() for node in self.nodes)

    def _build(self) -> None:
        files = self.certificates
        self.nodes = [
            Redis(
                username=USER if files else None,
                password=PASSWORD if files else None,
                tls=files or False,
                appendonly=True,
                config={"appendfsync": "always"},
                env=ServerClock().env,
                home=self.network.host(),
            )
            for _ in range(_NODES)
        ]
        self.servers += self.nodes
        for node in self.nodes:
            node.start()
        self._front(self.nodes, [node.port for node in self.nodes])
