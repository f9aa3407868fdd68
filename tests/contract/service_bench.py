"""The bench of the service. It has a module of its own, because it needs the extra `service`."""

from __future__ import annotations

from typing import Self

from lockfast.testing import UrlBench
from tests.servers.service import Service


class ServiceBench(UrlBench):
    """A replica of the service in front of the engine of another bench, with the same clock."""

    def __init__(self, inner: UrlBench) -> None:
        super().__init__("")
        self.inner = inner
        self.unit, self.least, self.lag = inner.unit, inner.least, inner.lag
        self._behind = ""

    def __enter__(self) -> Self:
        # Some tests renew a hundred claims one after the other.
        make = lambda runtime: lambda: self.inner.open(runtime)  # noqa: E731
        self.service = Service(make, self.now, window=0.01)
        self.service.__enter__()
        self._behind, self.url = self.inner.url, self.service.url
        return self

    def __exit__(self, *error: object) -> None:
        self.service.__exit__(None, None, None)

    def wipe(self) -> None:
        self.inner.wipe()
        if self._behind != self.inner.url:  # some benches have a new file or root for each test
            self.__exit__()
            self.__enter__()

    def move(self, seconds: float) -> bool:
        if not self.inner.move(seconds):
            return False
        self.inner.ahead += seconds
        return True

    def rewind(self, seconds: float) -> None:
        self.inner.rewind(seconds)
        self.ahead = self.inner.ahead
