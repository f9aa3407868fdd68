"""Requests as the OpenAPI document describes them, and what is changed in them.

By hand, and not by schemathesis: that brings about fifteen packages, knows no handle of a claim,
and sends nothing that is not HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import NamedTuple
from urllib.parse import quote

from tests.service.http.site import Json, described

PREFIX = "f/"
"""Of the locks that the client may have."""
HELD = ["held 0", "held 1", "held 2"]
"""Those of them that it has all the time. The handles are theirs."""
LONGEST = 60  # characters of a text that is not changed
WILD = [
    *(b"null", b"true", b"0", b"-1", b"-0.0", b"1e-320", b"1e999", b"-1e999", b"NaN", b"-Infinity"),
    *(
        b"9" * 400,
        b"1." + b"0" * 5_000,
        b"2147483647",
        b"9007199254740993",
        b"18446744073709551616",
    ),
    *(b"01", b"+1", b".5", b"0x10", b"1_0", b"'a'", b'"a" "b"', b"/**/1", b"\x00", b""),
    *(
        b'""',
        b'"\\u0000"',
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\n"',
    ),
    *(b'"' + b"x" * 513 + b'"', b'"' + "é".encode() * 300 + b'"', b'"' + b"x" * 100_000 + b'"'),
    *(b'"\\uffff\\u202e\\u2028"', b'"f/{}*?[]%s\\r\\nX: y"', b'"v/held"', b'"f/\\ud83d\\ude00"'),
    *(
        b"[" + b" " * 130_000 + b"]",
        b"[]",
        b"{}",
        b'[["a"]]',
        b'{"a":{"b":[1]}}',
        b"[" * 50_000,
        b"[" * 900 + b"]" * 900,
    ),
]
"""Values that no field has, or no field should have. None makes a request wait."""
METHODS = [
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"post",
    b"P" * 99,
]
HEADERS = [
    *(b"Host: evil.example", b"Host: localhost\r\nHost: localhost", b"Host:", b"Origin: null"),
    *(b"Content-Type: application/xml", b"Content-Type: application/json; charset=utf-16"),
    *(b"Content-Encoding: gzip", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"),
    *(b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding : chunked", b"Content-Length: 3"),
    *(b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: 1_0", b"Content-Length: "),
    *(b"Content-Length: " + b"9" * 4_500, b"Content-Length: 99999999999", b"Content-Length: 5, 5"),
    *(b"Expect: 100-continue", b"Expect: x", b"Connection: keep-alive", b"Connection: upgrade"),
    *(b"Upgrade: h2c\r\nConnection: Upgrade", b"Range: bytes=0-1", b"If-None-Match: *"),
    *(b"Authorization: Bearer x", b"Authorization: Basic eDp4", b"Authorization: \xff"),
    *(b"X-Forwarded-For: 10.0.0.1", b"X-Client: CN=victim", b"Cookie: a=b", b"X: " + b"y" * 9_000),
    *(
        b"X: y\r\n" * 150 + b"X: y",
        b"X: \xff",
        b"X: a\r\n b",
        b"X y: z",
        b": y",
        b"X",
        b"X: a\x00b",
    ),
    *(
        b"Idempotency-Key:",
        b"Idempotency-Key: a b",
        b"Idempotency-Key: \xe9",
        b"Idempotency-Key: {",
    ),
    *(b"Idempotency-Key: one", b"Idempotency-Key: one\r\nIdempotency-Key: two"),
    *(b"Idempotency-Key: " + b"k" * 255, b"Idempotency-Key: " + b"k" * 256),
]
TARGETS = [
    *(
        b"",
        b"/",
        b"*",
        b"/v1",
        b"/v1/",
        b"/v1/nothing",
        b"/v1/connect",
        b"/v1/acquire/",
        b"//v1/acquire",
    ),
    *(
        b"/v1/../v1/acquire",
        b"/V1/ACQUIRE",
        b"/v1/%61cquire",
        b"/v1/acquire%00",
        b"/v1/acquire\xc3\xa9",
    ),
    *(b"http://evil.example/v1/acquire", b"/v1/acquire#x", b"/v1/acquire;x=y", b"/%ff", b"/v1/%"),
    *(b"/v1/" + b"x" * 5_000, b"/openapi.json", b"/.well-known/jwks.json", b"/livez", b"/metrics"),
    *(b"/readyz", b"/v1/renew?handle=x", b"/v1/ acquire", b"/v1/locks?" + b"&" * 3_000),
]
QUERIES = [
    *(
        b"%zz",
        b"%ff",
        b"%00",
        b"%",
        b";",
        b"&name=a",
        b"&a=1" * 20,
        b"#",
        b"=",
        b"\xff",
        b"%ed%a0%80",
    ),
    *(
        b"&cursor=" + b"%5B" * 2_000,
        b"&cursor=[0,%22f/%22,[1]]",
        b"&cursor=0",
        b"&prefix=" + b"x" * 513,
    ),
]
CHUNKS = [
    b"zz\r\n",
    b"-1\r\n",
    b"ffffffffffffffffffff\r\n",
    b"5\r\nab\r\n",
    b"1;x=" + b"y" * 99 + b"\r\na\r\n",
]


class Request(NamedTuple):
    """A request before it is written."""

    method: bytes
    target: bytes
    headers: list[bytes]
    body: bytes
    chunked: bool


def written(request: Request, chance: Random) -> bytes:
    """Return the bytes of a request, with the body in one piece or in several."""
    method, target, headers, body, chunked = request
    if chunked:
        cuts = sorted(chance.sample(range(len(body) + 1), min(len(body), 3)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        headers = [*headers, b"Transfer-Encoding: chunked"]
        body = (
            b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces if each) + b"0\r\n\r\n"
        )
    elif body:
        headers = [*headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([b"%s %s HTTP/1.1" % (method, target), *headers, b"", b""]) + body


class Changes:
    """Makes a request and changes it, by a seeded choice."""

    def __init__(self, chance: Random, handles: Sequence[str], key: str) -> None:
        """Take what is chosen from. `handles`: those that the client knows."""
        self._chance = chance
        self._handles = handles
        self._key = key

    def request(self) -> bytes:
        """Return the bytes of a request, in which up to three things are changed."""
        chance = self._chance
        path = chance.choice(sorted(described()["paths"]))
        ((method, operation),) = described()["paths"][path].items()
        fields = self._fields(operation)
        kinds = [chance.choice("bbbhhqtmcx") for _ in range(chance.randrange(4))]
        for _ in range(kinds.count("b")):
            self._spoil(fields)
        headers = [
            b"Host: localhost",
            b"Connection: close",
            b"Authorization: Bearer " + self._key.encode(),
        ]
        headers += [
            b"%s: %d" % (each["name"].encode(), chance.randrange(20))
            for each in operation["parameters"]
            if each["in"] == "header" and chance.random() < 0.3
        ]
        request = Request(
            method.upper().encode(),
            path.encode() + self._query(operation, spoiled="q" in kinds),
            headers,
            b"{" + b",".join(b"%s:%s" % pair for pair in fields) + b"}"
            if "requestBody" in operation
            else b"",
            chance.random() < 0.2,
        )
        if "t" in kinds:
            request = request._replace(target=chance.choice(TARGETS))
        if "m" in kinds:
            request = request._replace(method=chance.choice(METHODS))
        for _ in range(kinds.count("h")):
            place = chance.randrange(len(headers) + 1)
            headers[place : place + chance.randrange(2)] = [chance.choice(HEADERS)]
        raw = written(request, chance)
        if "c" in kinds and request.chunked:
            place = raw.index(b"\r\n\r\n") + 4
            raw = raw[:place] + chance.choice(CHUNKS) + raw[place:]
        return self._broken(raw) if "x" in kinds else raw

    def _fields(self, operation: Json) -> list[tuple[bytes, bytes]]:
        """Return the fields of a body, as JSON. Optional ones are there now and then."""
        if "requestBody" not in operation:
            return []
        schema = _resolved(operation["requestBody"]["content"]["application/json"]["schema"])
        return [
            (json.dumps(name).encode(), json.dumps(self._value(name, each)).encode())
            for name, each in schema["properties"].items()
            if name in {*schema["required"], "name", "ttl"} or self._chance.random() < 0.25
        ]

    def _value(self, name: str, schema: Json) -> object:  # noqa: PLR0911  # one for each kind
        chance = self._chance
        schema = _resolved(schema)
        if "anyOf" in schema:
            return self._value(name, chance.choice(schema["anyOf"]))
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if name == "wait":
            return chance.choice([0, 0.01, 0.05])
        if name in {"name", "prefix"} and schema["type"] == "string":
            return f"{PREFIX}{chance.choice(HELD) if chance.random() < 0.3 else chance.random()}"
        if name == "handle" and schema["type"] == "string" and self._handles:
            return chance.choice(self._handles)
        if schema["type"] in {"number", "integer"}:
            top = schema.get("maximum", schema.get("exclusiveMaximum", 2) - 1)
            some = [schema["minimum"], top, chance.uniform(schema["minimum"], min(top, 60.0)), 2]
            made = chance.choice(some)
            return int(made) if schema["type"] == "integer" else made
        if schema["type"] == "array":
            return [self._value("handle", schema["items"]) for _ in range(chance.randrange(4))]
        if schema["type"] == "string":
            length = chance.randint(schema.get("minLength", 0), min(schema["maxLength"], LONGEST))
            alphabet = "0123456789abcdef" if "pattern" in schema else "ab é\u2028😀\x00"
            return "".join(chance.choices(alphabet, k=length))
        return None

    def _spoil(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Change a field, or add one."""
        chance = self._chance
        wild = chance.choice(WILD)
        if not fields or chance.random() < 0.1:
            fields.append((chance.choice([b'"later"', b"1", b'"\\ud800"', b'"name"']), wild))
            return
        place = chance.randrange(len(fields))
        name, value = fields[place]
        kind = chance.randrange(6)
        if kind == 0:
            del fields[place]
        elif kind == 1:
            fields.append((name, chance.choice([value, wild])))
        elif kind == 2:
            fields[place] = (name, b"[%s,%s]" % (value, wild))
        elif kind == 3 and value.startswith(b'"') and len(value) > 3:
            cut = chance.randrange(1, len(value) - 1)
            fields[place] = (
                name,
                value[:cut] + bytes([chance.randrange(32, 127)]) + value[cut + 1 :],
            )
        else:
            fields[place] = (name, wild)

    def _query(self, operation: Json, *, spoiled: bool) -> bytes:
        chance = self._chance
        pairs = [
            f"{each['name']}={quote(str(self._value(each['name'], each['schema'])))}"
            for each in operation["parameters"]
            if each["in"] == "query" and chance.random() < 0.5
        ]
        query = "&".join(pairs).encode() + (chance.choice(QUERIES) if spoiled else b"")
        return b"?" + query if query else b""

    def _broken(self, raw: bytes) -> bytes:
        """Change bytes wherever they are."""
        chance = self._chance
        kind, place = chance.randrange(6), chance.randrange(len(raw))
        if kind == 0:
            return raw[:place]
        if kind == 1:
            return raw[:place] + chance.randbytes(chance.randint(1, 40)) + raw[place:]
        if kind == 2:
            return raw[:place] + raw[place + chance.randint(1, 9) :]
        if kind == 3:
            return raw.replace(b"Connection: close", b"X: y") + raw
        if kind == 4:
            return chance.randbytes(chance.randint(1, 200))
        found = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            found[chance.randrange(len(found))] = chance.randrange(256)
        return bytes(found)


def _resolved(schema: Json) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Json = described()["components"]["schemas"][name] if name else schema
    return found
