"""The program of a replica of the first version of the service, on a host of the tests.

That version accepts connections at loopback addresses only, so it is told that any address is one.
It imports nothing of the tests: it runs with the source of that version, as `python -P serving.py`.
"""

import logging
import sys
from typing import Any

from lockfast.service import access, server


def main() -> None:
    """Run a replica at HOST PORT, in front of the engine that LOCKFAST_URL names."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for module in (access, server):
        vars(module)["is_loopback"] = bool  # of a name that is not empty
    serve: Any = server.serve  # with the arguments that it had then
    serve(None, sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    main()
