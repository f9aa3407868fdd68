"""Servers that belong together: `with` starts them all, and closes them at the end."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Group(ABC):
    """Several servers under one name. What did start is closed also if the rest did not."""

    @abstractmethod
    def start(self) -> Self:
        """Start all, and wait until they serve together."""

    @abstractmethod
    def close(self) -> None:
        """End all."""

    def __enter__(self) -> Self:
        """Start."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
