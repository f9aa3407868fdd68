"""A version: its files, unpacked into a folder of their own, and how its worker is called."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "previous"
PARTS = ("src", "tests")


@dataclass(frozen=True)
class Version:
    """A commit, or this working tree with a patch."""

    name: str
    commit: str = ""
    mode: str = "--mode"
    """The option of its worker that chooses between threads and asyncio."""
    without: tuple[str, ...] = ()
    """Faults that its worker does not survive, as it was not written for them."""

    @property
    def patch(self) -> Path:
        """What makes this working tree that version, if it is no commit."""
        return Path(__file__).with_name(f"{self.name}.patch")

    def unpacked(self) -> Path:
        """Unpack its files, and return their folder. Runs that start at once share the folder."""
        folder = HOME / self.name
        HOME.mkdir(parents=True, exist_ok=True)
        stamp = self._stamp()
        known = folder / "stamp"
        if known.exists() and known.read_text("utf-8") == stamp:
            return folder
        made = Path(f"{folder}.{stamp[-12:]}.{os.getpid()}")
        shutil.rmtree(made, ignore_errors=True)
        if self.commit:
            argv = ["git", "-C", str(ROOT), "archive", self.commit, *PARTS]
            packed = subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as files:
                files.extractall(made, filter="data")
        else:
            for part in PARTS:
                shutil.copytree(ROOT / part, made / part, ignore=shutil.ignore_patterns("*.pyc"))
            argv = ["git", "apply", "--unsafe-paths", f"--directory={made}", str(self.patch)]
            subprocess.run(argv, cwd=made, check=True)
        (made / "stamp").write_text(stamp, "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(made)
        return folder

    def install(self, url: str) -> None:
        """Prepare an engine as an upgrade does: in PostgreSQL, a later version installs first."""
        if self.commit or not url.startswith("postgresql:"):
            return
        code = "import sys; from lockfast.engines.postgres import install; install(sys.argv[1])"
        env = {**os.environ, "PYTHONPATH": str(self.unpacked() / "src")}
        subprocess.run([sys.executable, "-c", code, url], env=env, check=True)

    def _stamp(self) -> str:
        """Return what changes whenever the files do."""
        if self.commit:
            return self.commit
        paths = [self.patch, *(p for part in PARTS for p in sorted((ROOT / part).rglob("*.*")))]
        newest = max(path.stat().st_mtime_ns for path in paths if path.suffix != ".pyc")
        return f"{newest} {len(paths)}"


VERSIONS = {
    each.name: each
    for each in (
        Version(
            "c0ff680",
            commit="c0ff680eb62186b931f0f1011375b712a5028ca4",
            mode="--colour",
            without=("signal-storm",),
        ),
        Version("further-field"),
        # The first version of the lock service.
        Version("41e525b", commit="41e525b528d2f8d2febe6c9e1dd8b8119ebacd64"),
    )
}
