"""The address of an ensemble and the login for it, read from a URL for kazoo."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl

from lockfast.engines.hosts import exposed, unverified
from lockfast.engines.tls import Tls, tls_context
from lockfast.guarantees import Finding
from lockfast.url import Target

PORT = 2181
FILES = ("ssl_ca", "ssl_cert", "ssl_key")
TLS = (*FILES, "ssl_key_password", "ssl_verify", "ssl_check_hostname")
OPTIONS = ("ssl", *TLS, "acl", "token_base")


@dataclass(frozen=True, slots=True)
class Address:
    """An ensemble, the login for it, and the node below which lockfast keeps its locks."""

    hosts: str
    root: str
    login: list[tuple[str, str]] = field(repr=False)
    """Pairs of an authentication scheme and its credentials."""
    acl: list[ACL]
    tls: Tls[ssl.SSLContext] | None
    weak: tuple[Finding, ...]
    """Findings about a connection that is not encrypted or not verified."""

    @staticmethod
    def of(target: Target) -> Address:
        """Return the address that a URL names."""
        said = target.take(*OPTIONS)
        hosts = target.hosts or (("localhost", None),)
        name, password = target.username, target.password or ""
        secure = _switch(said.get("ssl", "true" if any(word in said for word in TLS) else "false"))
        tls = Tls(said, FILES, lambda: _context(said)) if secure else None
        context = None if tls is None else tls.current()
        return Address(
            hosts=",".join(_written(host, port or PORT) for host, port in hosts),
            root=_root(target.path),
            login=[] if name is None else [("digest", f"{name}:{password}")],
            acl=_acl(said.get("acl", _usual(name, said))),
            tls=tls,
            weak=(
                *exposed(target, encrypted=secure, remedy="turn TLS on: ?ssl=true"),
                *unverified(target, context, "remove ssl_verify and ssl_check_hostname"),
            ),
        )


def _usual(name: str | None, said: dict[str, str]) -> str:
    """Return the default `acl`: `creator` for a client with a user or certificate, else `open`."""
    return "open" if name is None and "ssl_cert" not in said else "creator"


def _acl(said: str) -> list[ACL]:
    """Parse the option `acl`: `creator`, `open` or `scheme:id`, several joined by `|`. Each of them
    gets all rights to our nodes.
    """
    found: list[ACL] = []
    for each in said.split("|"):
        scheme, colon, id_ = each.partition(":")
        if each == "open":
            found += OPEN_ACL_UNSAFE
        elif each == "creator":
            found += CREATOR_ALL_ACL
        elif scheme and colon and id_:
            found.append(make_acl(scheme, id_, all=True))
        else:
            raise ValueError(f"acl must be creator, open or scheme:id, not {each!r}")
    return found


def _context(said: dict[str, str]) -> ssl.SSLContext:
    password = said.get("ssl_key_password")
    context = tls_context(said, *FILES, password)
    verify = _switch(said.get("ssl_verify", "true"))
    context.check_hostname = verify and _switch(said.get("ssl_check_hostname", "true"))
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    return context


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _root(path: str) -> str:
    parts = path.strip("/").split("/")
    if parts == [""]:
        return "/lockfast"
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise ValueError(f"this is not a path of ZooKeeper: {path!r}")
    return "/" + "/".join(parts)


def _switch(said: str) -> bool:
    if said.lower() not in {"0", "1", "true", "false"}:
        raise ValueError(f"an option must be true or false, not {said!r}")
    return said.lower() in {"1", "true"}
