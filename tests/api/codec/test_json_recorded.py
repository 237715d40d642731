"""Decoding errors and warnings, compared with the recorded responses of a real server."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.api.codec import custom
from sampan.api.codec import json as codec
from sampan.api.schema.tree import Schema, from_openapi
from sampan.api.scheme import Scheme, builtin_scheme, type_for

REJECTED = re.compile(r'.* in version "([^"]*)" cannot be handled as a (\w+): (.*)', re.S)
UNREADABLE = re.compile(r".*couldn't get version/kind; json parse error: (.*) \(.*\)", re.S)
WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
OTHER_STAGES = ("unknown conversion", "is registered for version", "yaml: ")
"""Errors that come from before or after the codec."""


@dataclass(frozen=True)
class Exchange:
    name: str
    path: str
    body: bytes
    message: str
    warnings: tuple[str, ...]


@pytest.fixture(scope="module")
def scenarios(reference_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """The steps of all scenarios, by the name of the scenario."""
    paths = sorted((reference_dir / "recordings").glob("*.yaml"))
    return {path.stem: yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["steps"] for path in paths}


@pytest.fixture(scope="module")
def exchanges(reference_dir: Path, scenarios: dict[str, list[dict[str, Any]]]) -> list[Exchange]:
    """Every recorded POST and PUT of JSON."""
    return list(_exchanges(reference_dir, scenarios))


def _exchanges(reference_dir: Path, scenarios: dict[str, list[dict[str, Any]]]) -> Iterator[Exchange]:
    for path in sorted((reference_dir / "recordings").glob("*.json")):
        for recorded in json.loads(path.read_text()):
            step = scenarios[path.stem][recorded["step"]]
            method, _, url = recorded["request"].partition(" ")
            types = {k.lower(): v for k, v in (step.get("headers") or {}).items()}
            if method not in ("POST", "PUT") or "json" not in types.get("content-type", "application/json"):
                continue
            body = step.get("body", "")
            text = (body if isinstance(body, str) else json.dumps(body)).replace("{ns}", "<ns>")
            message = recorded["body"].get("message", "") if isinstance(recorded["body"], dict) else ""
            yield Exchange(
                name=f"{path.stem} step {recorded['step']}",
                path=url.partition("?")[0],
                body=text.encode(),
                message=message,
                warnings=tuple(json.loads(f'"{w}"') for w in WARNING.findall(recorded["warning"] or "")),
            )


def decoding_error(scheme: Scheme, exchange: Exchange, schema: Schema | None) -> str:
    """Return the error of the codec for a body, or its strict errors."""
    route = scheme.resolve(exchange.path)
    kind = None
    if route is not None:
        subresource = route.resource.subresource(route.path.subresource)
        gvk = route.resource.kind_of(subresource) if subresource else route.resource.gvk
        kind = type_for(gvk)
    try:
        if kind is not None:
            return "strict decoding error: " + ", ".join(codec.decode(exchange.body, kind)[1])
        assert schema is not None
        return "strict decoding error: " + ", ".join(custom.decode(exchange.body, schema)[1])
    except codec.DecodeError as error:
        return str(error)


@pytest.fixture(scope="module")
def custom_schemas(scenarios: dict[str, list[dict[str, Any]]]) -> dict[str, Schema]:
    """The schema of every version of every CustomResourceDefinition in the scenarios, by its API path."""
    schemas: dict[str, Schema] = {}
    for steps in scenarios.values():
        for step in steps:
            body = step.get("body")
            if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
                plural, _, group = body["metadata"]["name"].partition(".")
                for version in (body.get("spec") or {}).get("versions") or ():
                    source = (version.get("schema") or {}).get("openAPIV3Schema")
                    if isinstance(source, dict):
                        schemas.setdefault(f"/apis/{group}/{version['name']}/{plural}", from_openapi(source))
    return schemas


def schema_for(schemas: dict[str, Schema], path: str) -> Schema | None:
    api_path = re.sub(r"/namespaces/[^/]+(?=/)", "", path)
    return next((schema for prefix, schema in schemas.items() if f"{api_path}/".startswith(f"{prefix}/")), None)


def test_rejected_bodies_have_the_recorded_messages(
    exchanges: list[Exchange], custom_schemas: dict[str, Schema]
) -> None:
    scheme, counts, differences = builtin_scheme(), Counter[str](), []
    for exchange in exchanges:
        rejected = REJECTED.fullmatch(exchange.message)
        if rejected is None or any(word in rejected[3] for word in OTHER_STAGES):
            continue
        message = decoding_error(scheme, exchange, schema_for(custom_schemas, exchange.path))
        expected = re.sub(r"<time>", lambda _: "…", rejected[3])
        if re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", "…", message) != expected:
            differences.append(f"{exchange.name}: wanted {expected}, found {message}")
        counts["strict" if expected.startswith("strict") else "error"] += 1
    assert not differences, "\n".join(differences)
    assert counts == {"strict": 48, "error": 56}


def test_warnings_name_the_recorded_fields(exchanges: list[Exchange], custom_schemas: dict[str, Schema]) -> None:
    scheme, compared, differences = builtin_scheme(), 0, []
    for exchange in exchanges:
        expected = [w for w in exchange.warnings if w.startswith(("unknown field", "duplicate field"))]
        if not expected:
            continue
        compared += 1
        message = decoding_error(scheme, exchange, schema_for(custom_schemas, exchange.path)).removeprefix(
            "strict decoding error: "
        )
        if message != ", ".join(expected):
            differences.append(f"{exchange.name}: wanted {expected}, found {message}")
    assert not differences, "\n".join(differences)
    assert compared == 62


def test_unreadable_bodies_have_the_recorded_messages(exchanges: list[Exchange]) -> None:
    differences: list[Any] = []
    compared = 0
    for exchange in exchanges:
        if (unreadable := UNREADABLE.fullmatch(exchange.message)) is None:
            continue
        compared += 1
        try:
            kind = str(codec.read_kind(exchange.body))
        except codec.DecodeError as error:
            kind = str(error)
        if kind != unreadable[1]:
            differences.append(f"{exchange.name}: wanted {unreadable[1]}, found {kind}")
    assert not differences, "\n".join(differences)
    assert compared == 9
