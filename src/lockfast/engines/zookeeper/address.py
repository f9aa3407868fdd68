"""Where an ensemble is, and how to log in: what a URL says, in kazoo's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from lockfast.url import Target

PORT = 2181
TLS = {
    "ssl_ca": "ca",
    "ssl_cert": "certfile",
    "ssl_key": "keyfile",
    "ssl_key_password": "keyfile_password",
}
SWITCHES = {"ssl": "use_ssl", "ssl_verify": "verify_certs", "ssl_check_hostname": "check_hostname"}
OPTIONS = (*TLS, *SWITCHES, "token_base")


@dataclass(frozen=True, slots=True)
class Address:
    """One ensemble, and the node under which our locks are."""

    hosts: str
    root: str
    options: dict[str, Any] = field(repr=False)
    acl: list[ACL]

    @staticmethod
    def of(target: Target) -> Address:
        """Read a URL."""
        said = target.take(*OPTIONS)
        hosts = target.hosts or (("localhost", None),)
        words: dict[str, Any] = {theirs: said[ours] for ours, theirs in TLS.items() if ours in said}
        words |= {theirs: _switch(said[ours]) for ours, theirs in SWITCHES.items() if ours in said}
        if any(word in said for word in TLS):
            words.setdefault("use_ssl", True)
        if words.get("use_ssl") and words.get("verify_certs", True):
            words.setdefault("check_hostname", True)
        if target.username is not None:
            words["auth_data"] = [("digest", f"{target.username}:{target.password or ''}")]
        return Address(
            hosts=",".join(_written(host, port or PORT) for host, port in hosts),
            root=_root(target.path),
            options=words,
            acl=OPEN_ACL_UNSAFE if target.username is None else CREATOR_ALL_ACL,
        )


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _root(path: str) -> str:
    parts = path.strip("/").split("/")
    if parts == [""]:
        return "/lockfast"
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise ValueError(f"not a path of ZooKeeper: {path!r}")
    return "/" + "/".join(parts)


def _switch(said: str) -> bool:
    if said.lower() not in {"0", "1", "true", "false"}:
        raise ValueError(f"true or false is wanted, not {said!r}")
    return said.lower() in {"1", "true"}
