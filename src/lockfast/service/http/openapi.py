"""`GET /openapi.json`: the API as an OpenAPI 3.1 document, made of the routes and their types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

import lockfast
from lockfast.service.http.messages import LONGEST_KEY
from lockfast.service.http.routes import ROUTES, WRONG, Reply, Route

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{name}"
KEY = "apiKey"
SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key or a JSON Web Token. A service on the same machine may need none.",
}
RETRY_AFTER = {"schema": {"type": "integer", "minimum": 0}, "description": "Seconds to wait."}
CHALLENGE = {"schema": {"const": "Bearer"}, "description": "How a client shows who it is."}
HEADERS = {
    401: {"WWW-Authenticate": CHALLENGE},
    **{status: {"Retry-After": RETRY_AFTER} for status in (202, 429, 503)},
}
"""Of answers with these statuses. A 202 has it if the client should ask again at once."""


@cache
def document() -> bytes:
    """Return the document."""
    types = {kind for route in ROUTES for kind in _types(route)}
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    paths: Json = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    for route in ROUTES:  # it has become parameters
        if route.query is not None:
            del schemas[route.query.__name__]
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "lockfast",
                "version": lockfast.__version__,
                "description": "Distributed locks with fencing tokens, by plain HTTP.",
            },
            "paths": paths,
            "security": [{}, {KEY: []}],
            "components": {
                "schemas": schemas,
                "securitySchemes": {KEY: SCHEME},
            },
        }
    )


def _types(route: Route) -> Iterator[type[msgspec.Struct]]:
    yield from (kind for kind, _ in (route.replies | WRONG).values())
    yield from (kind for kind in (route.body, route.query) if kind is not None)


def _operation(route: Route, schemas: Json) -> Json:
    replies = dict(sorted((route.replies | WRONG).items()))
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_query(route, schemas), *_headers(route)],
        "responses": {str(status): _reply(status, reply) for status, reply in replies.items()},
    }
    if route.body is not None:
        content = {"application/json": {"schema": _reference(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _query(route: Route, schemas: Json) -> Iterator[Json]:
    if route.query is None:
        return
    for name, schema in schemas[route.query.__name__]["properties"].items():
        yield {"name": name, "in": "query", "schema": schema}


def _headers(route: Route) -> Iterator[Json]:
    for name, description in route.headers.items():
        schema = {"type": "string", "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"}
        yield {"name": name, "in": "header", "description": description, "schema": schema}


def _reply(status: int, reply: Reply) -> Json:
    kind, description = reply
    found: Json = {
        "description": description,
        "content": {"application/json": {"schema": _reference(kind)}},
    }
    if status in HEADERS:
        found["headers"] = HEADERS[status]
    return found


def _reference(kind: type[msgspec.Struct]) -> Json:
    return {"$ref": REFERENCE.format(name=kind.__name__)}
