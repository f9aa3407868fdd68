"""The guard over HTTP: the `Fencing-Token` header, its two middlewares and its client sides.

`asgi` and `wsgi` are the server's, `httpx` and `requests` the client's. A middleware stands in
front of the write, so what it promises depends on how it is used: see `Door`.
"""

from lockfast.guards.http.door import Door
from lockfast.guards.http.header import HEADER, SHOWN, header, parse
from lockfast.guards.http.problem import Problem, problem
from lockfast.guards.http.verified import held_in

__all__ = ["HEADER", "SHOWN", "Door", "Problem", "header", "held_in", "parse", "problem"]
