"""The configuration of a replica: where it listens, and which files say who may connect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

MOST_WORKERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What `lockfast serve` was told, by its options and by its file. Nothing is loaded yet."""

    url: str | None = field(default=None, repr=False)
    """The engine's URL. None: LOCKFAST_URL or LOCKFAST_URL_FILE gives it."""
    host: str = "127.0.0.1"
    port: int = 7420
    """0: any free one."""
    workers: int = 1
    """How many processes serve, each as a replica of its own."""
    behind_proxy: bool = False
    """Whether a proxy in front of the replica does TLS, for an address without it."""
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    """None: the key is in the certificate's file."""
    keys_file: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    """API keys: the name of each, and `sha256:` with the hash."""
    subjects: Mapping[str, object] | None = None
    """Rights and limits, by subject. None: whoever may connect may do everything."""
    jwt: Mapping[str, object] | None = None
    """Which JSON Web Tokens are accepted. None: none."""
    uds: str | None = None
    """The path of a unix socket on which it listens, instead of the address."""
    uds_mode: str = "0600"
    """The permissions of that socket, in octal digits."""
    certificate_header: str | None = None
    """The header in which a proxy in front of that socket names the client's certificate."""
    web: bool = False
    """Whether it serves the dashboard too."""
    audit_file: str | None = None
    """Where the audit log is written. "-": to standard output."""

    handle_key_file: str | None = None
    """The keys that seal the handles of HTTP clients. None: a random one in each process."""

    signing_key_file: str | None = None
    """The private keys that sign tokens. None: no tokens are signed."""

    @property
    def reloads(self) -> bool:
        """Whether there are files whose new contents a running replica can take."""
        files = (
            *(self.ssl_certfile, self.keys_file, self.audit_file),
            *(self.handle_key_file, self.signing_key_file),
        )
        return bool(self.keys or any(files))


FIXED = ("url", "host", "port", "workers", "behind_proxy", "uds", "uds_mode", "audit_file", "web")
"""What a running replica cannot change."""


def changed(old: Config, new: Config) -> list[str]:
    """Return the names of the fields that have changed, though a running replica keeps them."""
    return [name for name in FIXED if getattr(old, name) != getattr(new, name)]


def unchanged(old: Config, new: Config) -> Config:
    """Return the new configuration, as far as a running replica can change to it."""
    return replace(new, **{name: getattr(old, name) for name in FIXED})
