"""The guard for files on a local filesystem: replaced by rename under an OS lock."""

from lockfast.guards.files.guard import AsyncFileGuard, FileGuard
from lockfast.guards.files.marks import MarkFolder

__all__ = ["AsyncFileGuard", "FileGuard", "MarkFolder"]
