"""Hosts: each server and each client on an address of its own, and what happens to a network."""

from tests.robustness.hosts.host import Host, host_of
from tests.robustness.hosts.network import Network

__all__ = ["Host", "Network", "host_of"]
