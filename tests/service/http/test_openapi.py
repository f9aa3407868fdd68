"""The OpenAPI document: it is valid, it is served, and a client can be generated from it."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from lockfast.service.http.routes import BY_PATH, OPENAPI, ROUTES
from tests.service.http.site import Json, Site, described

Operation = Callable[..., tuple[int, Json]]


def generated(document: Mapping[str, Any], host: str, port: int) -> dict[str, Operation]:
    """Generate a client: a function for each operation of a document."""

    def operation(method: str, path: str, described: Json) -> Operation:
        def call(body: object = None, **query: str) -> tuple[int, Json]:
            known = {each["name"] for each in described["parameters"] if each["in"] == "query"}
            assert set(query) <= known
            assert (body is not None) == ("requestBody" in described)
            line = http.client.HTTPConnection(host, port, timeout=10)
            target = path + "?" + "&".join(f"{name}={value}" for name, value in query.items())
            line.request(method.upper(), target, None if body is None else json.dumps(body))
            reply = line.getresponse()
            assert str(reply.status) in described["responses"]
            found = reply.status, json.loads(reply.read())
            line.close()
            return found

        return call

    return {
        described["operationId"]: operation(method, path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    }


def schemas(found: object) -> Iterator[Json]:
    """Return all schemas of objects."""
    if isinstance(found, dict):
        if "properties" in found:
            yield found
        for each in found.values():
            yield from schemas(each)
    elif isinstance(found, list):
        for each in found:
            yield from schemas(each)


def test_the_document_is_valid(site: Site) -> None:
    document = site.get(OPENAPI).body
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()
    assert document == described()


def test_a_generated_client_takes_and_releases_a_lock(site: Site) -> None:
    client = generated(site.get(OPENAPI).body, "127.0.0.1", site.port)
    status, granted = client["acquire"]({"name": "generated", "ttl": 30})
    assert status == 200
    assert client["renew"]({"handles": [granted["handle"]]})[1]["results"][0]["state"] == "held"
    assert len(client["locks"](name="generated")[1]["locks"]) == 1
    assert client["release"]({"handle": granted["handle"]}) == (200, {"held": True})
    assert client["locks"](name="generated")[1]["locks"] == []


def test_the_document_has_each_request_and_each_type() -> None:
    paths = described()["paths"]
    assert {(path, method) for path, methods in paths.items() for method in methods} == {
        (route.path, route.method.lower()) for route in ROUTES
    }
    assert set(BY_PATH) == set(paths)
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described())))
    assert used == set(described()["components"]["schemas"])


def test_each_text_and_each_list_of_a_request_has_a_limit() -> None:
    kinds = {route.body.__name__ for route in ROUTES if route.body is not None}
    known = described()["components"]["schemas"]
    texts = 0
    for kind in kinds:
        for field in known[kind]["properties"].values():
            for each in field.get("anyOf", [field]):
                if each.get("type") == "string":
                    texts += 1
                    assert "maxLength" in each, (kind, field)
                elif each.get("type") == "array":
                    assert "maxItems" in each
                    assert "maxLength" in each["items"]
                elif each.get("type") in {"number", "integer"}:
                    assert {"minimum", "maximum"} <= {
                        name.replace("exclusiveMaximum", "maximum") for name in each
                    }
    assert texts > 5


def test_tickets_are_texts() -> None:
    found = 0
    for schema in schemas(described()["components"]["schemas"]):
        for name, field in schema["properties"].items():
            if name in {"token", "ticket", "floor"}:
                found += 1
                types = {each.get("type") for each in field.get("anyOf", [field])}
                assert types <= {"string", "null"}
    assert found > 5


def operations() -> Iterator[Json]:
    for methods in described()["paths"].values():
        yield from methods.values()


def test_a_generator_finds_what_it_needs() -> None:
    """A name of each operation, a type of each body, and how to show who one is."""
    names = [each["operationId"] for each in operations()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    (scheme,) = described()["components"]["securitySchemes"].items()
    assert (scheme[1]["type"], scheme[1]["scheme"]) == ("http", "bearer")
    assert described()["security"] == [{}, {scheme[0]: []}]  # without keys, nobody shows one
    for each in operations():
        assert each["summary"]
        for parameter in each["parameters"]:
            assert parameter["in"] in {"query", "header"}
            assert parameter["schema"]
        for status, reply in each["responses"].items():
            (kind,) = reply["content"]
            assert kind == "application/json"
            schema = reply["content"][kind]["schema"]["$ref"].rpartition("/")[2]
            if int(status) >= 400:
                fields = described()["components"]["schemas"][schema]["required"]
                assert {"error", "message"} <= set(fields)


def test_the_headers_that_a_client_must_read_are_described() -> None:
    for each in operations():
        replies = each["responses"]
        assert set(replies["401"]["headers"]) == {"WWW-Authenticate"}
        for status in {"202", "429", "503"} & set(replies):
            assert set(replies[status]["headers"]) == {"Retry-After"}
    (key,) = described()["paths"]["/v1/acquire"]["post"]["parameters"]
    assert re.fullmatch(key["schema"]["pattern"], "~" * key["schema"]["maxLength"])
