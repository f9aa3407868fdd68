"""Write the record of the public API anew: `python -m tests.api`."""

from __future__ import annotations

from tests.api.record import RECORD
from tests.api.surface import surface

RECORD.write_text("".join(f"{line}\n" for line in surface()), "utf-8")
