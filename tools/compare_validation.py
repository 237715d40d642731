#!/usr/bin/env python3
"""Compares how two API servers, usually a real kube-apiserver and Sampan, validate invalid objects of all kinds.

    .venv/bin/python tools/compare_validation.py URL TOKEN OTHER_URL OTHER_TOKEN [KIND...]

The objects are those of tests/apiserver/every_kind.py with one field changed each: left out, empty, malformed, out of
range, duplicated, or set although the object has no value for it. Each is created and put over the valid object, both
as dry runs; the whole Status of the responses is compared, and differences are printed.
"""

from __future__ import annotations

import copy
import json
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))

from sampan.api.resources.resource import Resource
from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.schema.schemas import schema_of
from sampan.api.scheme import type_for
from tests.apiserver.every_kind import GOOD

NAMESPACE = "compare-validation"
MAX_DEPTH = 9
LONG = "x" * 300
STRINGS = ("", "Not Valid!", LONG)
NUMBERS = (-1, 0, 2**31 - 1)


class Server:
    def __init__(self, url: str, token: str) -> None:
        self._host, self._token = urlsplit(url).netloc, token
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._connection = HTTPSConnection(self._host, context=context, timeout=30)

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self._connection.getresponse()
        warnings = response.headers.get_all("Warning") or []
        content = json.loads(response.read())
        return response.status, {"body": content, "warnings": warnings}


def mutations(schema: Any, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield changed copies of a value with the path of the change."""
    if isinstance(value, dict) and schema is not None and schema.properties:
        for name, child in schema.properties.items():
            if depth == 0 and name in ("kind", "apiVersion", "metadata", "status"):
                continue
            if name in value:
                yield f".{name} missing", {key: item for key, item in value.items() if key != name}
                for label, changed in mutations(child, value[name], depth + 1):
                    yield f".{name}{label}", value | {name: changed}
            elif depth < MAX_DEPTH:
                for label, made in invented(child):
                    yield f".{name}{label}", value | {name: made}
    elif isinstance(value, dict):
        for key in value:
            yield f"[{key}] missing", {other: item for other, item in value.items() if other != key}
            for label, changed in mutations(
                schema.additional if schema and schema.additional else None, value[key], depth + 1
            ):
                yield f"[{key}]{label}", value | {key: changed}
        yield "[Not Valid!] added", value | {"Not Valid!": next(iter(value.values()), "x")}
    elif isinstance(value, list):
        yield " empty", []
        if value:
            yield " duplicated", [*value, value[0]]
            yield " many", [value[0]] * 300
            for label, changed in mutations(schema.items if schema and schema.items else None, value[0], depth + 1):
                yield f"[0]{label}", [changed, *value[1:]]
    elif isinstance(value, bool):
        yield " flipped", not value
    elif isinstance(value, int):
        yield from ((f"={number}", number) for number in NUMBERS if number != value)
    elif isinstance(value, str):
        yield from ((f"={text[:12]!r}", text) for text in (*STRINGS, "valid-other") if text != value)


def invented(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield values for a field that the valid object does not have."""
    kind = schema.type
    if schema.properties:
        yield "={}", {}
        for name, child in schema.properties.items():
            child = child
            if child.type == "string":
                yield f"={{{name}: bad}}", {name: "Not Valid!"}
            elif child.type == "integer":
                yield f"={{{name}: -1}}", {name: -1}
    elif kind == "array":
        items = schema.items if schema.items else None
        if items is not None and items.properties:
            yield "=[{}]", [{}]
            for name, child in items.properties.items():
                child = child
                if child.type == "string":
                    yield f"=[{{{name}: bad}}]", [{name: "Not Valid!"}]
                elif child.type == "integer":
                    yield f"=[{{{name}: -1}}]", [{name: -1}]
        elif items is not None and items.type == "string":
            yield "=['','']", ["", ""]
            yield "=[bad]*40", ["Not Valid!"] * 40
    elif kind == "object" and schema.additional is not None:
        if schema.additional.type == "string":
            yield "={bad: bad}", {"Not Valid!": "Not Valid!"}
        else:
            yield "={bad: {}}", {"Not Valid!": {}}
    elif kind == "string":
        yield "=bad", "Not Valid!"
        yield "=long", LONG
    elif kind == "integer":
        yield "=-1", -1
        yield "=big", 2**31 - 1
    elif kind == "boolean":
        yield "=true", True


def comparable(response: tuple[int, Any]) -> tuple[int, list[str]]:
    """Return the status code of a response and its errors and warnings as lines."""
    status, content = response
    body = content["body"]
    lines = [f"warning {text}" for text in content["warnings"]]
    if status < 300:
        return status, lines
    causes = (body.get("details") or {}).get("causes")
    lines += [f"{cause.get('field')}: {cause.get('reason')} {cause.get('message')}" for cause in causes or ()]
    return status, lines if causes else [*lines, str(body.get("message"))]


def describe(want: tuple[int, list[str]], got: tuple[int, list[str]]) -> str:
    """Return what distinguishes two responses: `-` before what is missing, `+` before what is too much."""
    left, right = Counter(want[1]), Counter(got[1])
    lines = [
        f"{mark} {line[:420]}" for mark, side in (("-", left - right), ("+", right - left)) for line in side.elements()
    ]
    if want[0] != got[0]:
        lines.insert(0, f"code {want[0]}, not {got[0]}")
    return "\n      ".join(
        lines
        or [
            "other order: " + " | ".join(line.partition(":")[0] for line in want[1]),
            "not          " + " | ".join(line.partition(":")[0] for line in got[1]),
        ]
    )


def path_of(resource: Resource, name: str = "") -> str:
    prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    return f"{prefix}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def compare(servers: list[Server], resource: Resource, content: Any) -> tuple[int, list[str]]:
    count, differences = 0, []
    api_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    name = "compare.example.com" if resource.plural != "services" else "compare"
    base = {
        "apiVersion": api_version,
        "kind": resource.kind,
        "metadata": {"name": content.get("metadata", {}).get("name", name)},
        **{k: v for k, v in content.items() if k != "metadata"},
    }
    name = base["metadata"]["name"]
    made = [server.send("POST", path_of(resource), base) for server in servers]
    states = [status for status, _ in made]
    if any(status in (404, 405) for status in states):
        return 0, [f"{api_version} {resource.kind}: not served: {states}"]
    if any(status >= 300 and status != 409 for status in states):
        differences.append(
            f"{api_version} {resource.kind}: the valid object is refused: {[m[1]['body'].get('message') for m in made]}"
        )
    kind_type = type_for(resource.gvk)
    assert kind_type is not None
    schema = schema_of(kind_type)
    for label, changed in mutations(schema, base):
        for method in ("POST", "PUT"):
            body = copy.deepcopy(changed)
            if method == "POST":
                body["metadata"] = {"name": name + "-new" if resource.plural not in ("a",) else name}
                if body["metadata"]["name"].startswith("system:"):
                    continue
            path = path_of(resource, name if method == "PUT" else "") + "?dryRun=All"
            count += 1
            try:
                want, got = (comparable(server.send(method, path, body)) for server in servers)
            except OSError as error:
                differences.append(f"{api_version} {resource.kind} {method} {label}: {error}")
                continue
            if want != got:
                differences.append(f"{method} {label}\n      {describe(want, got)}")
    for server in servers:
        server.send("DELETE", path_of(resource, name), {"gracePeriodSeconds": 0})
    return count, differences


def main(url: str, token: str, other_url: str, other_token: str, *kinds: str) -> None:
    servers = [Server(url, token), Server(other_url, other_token)]
    for server in servers:
        server.send("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        server.send("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    total, differing = 0, 0
    for (group, kind), content in GOOD.items():
        if kinds and kind not in kinds:
            continue
        for resource in (resource for version in BUILT_IN for resource in version.resources):
            if (resource.group, resource.kind) == (group, kind):
                count, differences = compare(servers, resource, content)
                total, differing = total + count, differing + len(differences)
                print(
                    f"{resource.group}/{resource.version} {kind}: {count} requests, {len(differences)} differences",
                    flush=True,
                )
                alike: dict[str, list[str]] = {}
                for text in differences:
                    first, _, rest = text.partition("\n")
                    alike.setdefault(rest, []).append(first)
                for rest, cases in alike.items():
                    print(f"  {len(cases)}x {' ; '.join(cases)[:160]}\n{rest}", flush=True)
    print(f"{total} requests, {differing} differences")


if __name__ == "__main__":
    main(*sys.argv[1:])
