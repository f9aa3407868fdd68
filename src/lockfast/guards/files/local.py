"""Detection of network filesystems. It works on Linux; elsewhere every folder counts as local."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from lockfast.errors import Unguarded

MOUNTS = Path("/proc/self/mountinfo")
REMOTE = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph-fuse",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)


def require_local(folder: Path) -> None:
    """Raise `Unguarded` on a network filesystem, where two machines could both get the flock."""
    kind = _kind(folder.stat().st_dev)
    if kind in REMOTE:
        raise Unguarded(
            f"{str(folder)!r} is on a network filesystem ({kind}), where a file cannot be guarded: "
            "a flock can be lost silently there. Use a guard of a database or object store."
        )


@lru_cache(64)
def _kind(device: int) -> str:
    """Return the type of the mounted filesystem with a device number, or "" if it is not known."""
    try:
        lines = MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:  # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
        fields, _, rest = line.partition(" - ")
        if fields.split()[2:3] == [wanted] and rest:
            return rest.split()[0]
    return ""
