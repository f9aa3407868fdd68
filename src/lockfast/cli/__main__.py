"""`python -m lockfast.cli`, where the script is not on the path."""

import sys

from lockfast.cli import main

sys.exit(main())
