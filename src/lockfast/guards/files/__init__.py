"""The guard for files on a local filesystem. It replaces a file by a rename, under a flock."""

from lockfast.guards.files.guard import AsyncFileGuard, FileGuard
from lockfast.guards.files.marks import MarkFolder

__all__ = ["AsyncFileGuard", "FileGuard", "MarkFolder"]
