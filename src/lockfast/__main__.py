"""The entry point of `python -m lockfast`, for use where `lockfast` is not on the PATH."""

import sys

from lockfast.cli import main

sys.exit(main())
