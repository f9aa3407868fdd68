"""Write the record of the public API anew: `python -m tests.api`, at a release with `--release`."""

from __future__ import annotations

import sys

from tests.api.changelog import RELEASED
from tests.api.record import RECORD
from tests.api.surface import surface

TEXT = "".join(f"{line}\n" for line in surface())
RECORD.write_text(TEXT, "utf-8")
if sys.argv[1:] == ["--release"]:
    RELEASED.write_text(TEXT, "utf-8")
