"""The HTTP guard: the `Fencing-Token` header, middlewares for servers, and support for clients.

`asgi` and `wsgi` are the middlewares, `httpx` and `requests` the client sides. A middleware runs
before the write and not in its transaction, so what it guarantees depends on its use: see `Door`.
"""

from lockfast.guards.http.door import Door
from lockfast.guards.http.header import HEADER, SHOWN, header, parse
from lockfast.guards.http.problem import Problem, problem
from lockfast.guards.http.verified import held_in

__all__ = ["HEADER", "SHOWN", "Door", "Problem", "header", "held_in", "parse", "problem"]
