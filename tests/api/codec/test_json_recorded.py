"""What the real server said about odd bodies, and what the codec says about the same bodies."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sampan.api.codec import custom
from sampan.api.codec import json as codec
from sampan.api.schema.tree import Schema, from_openapi
from sampan.api.scheme import Scheme, builtin_scheme, type_for

REFUSED = re.compile(r'.* in version "([^"]*)" cannot be handled as a (\w+): (.*)', re.S)
UNREADABLE = re.compile(r".*couldn't get version/kind; json parse error: (.*) \(.*\)", re.S)
WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
ELSEWHERE = ("unknown conversion", "is registered for version", "yaml: ")
"""Errors that come from before or after the codec."""


@dataclass(frozen=True)
class Exchange:
    where: str
    path: str
    body: bytes
    message: str
    warnings: tuple[str, ...]


def exchanges(shared: Path) -> Iterator[Exchange]:
    """Every recorded write of JSON with a query of field validation, or an answer that refuses the body."""
    for path in sorted((shared / "golden/recorded").glob("*.json")):
        scenario = yaml.load((shared / f"golden/scenarios/{path.stem}.yaml").read_text(), Loader=yaml.CSafeLoader)
        for recorded in json.loads(path.read_text()):
            step = scenario["steps"][recorded["step"]]
            method, _, url = recorded["request"].partition(" ")
            types = {k.lower(): v for k, v in (step.get("headers") or {}).items()}
            if method not in ("POST", "PUT") or "json" not in types.get("content-type", "application/json"):
                continue
            body = step.get("body", "")
            text = (body if isinstance(body, str) else json.dumps(body)).replace("{ns}", f"golden-{path.stem}")
            message = recorded["body"].get("message", "") if isinstance(recorded["body"], dict) else ""
            yield Exchange(
                where=f"{path.stem} step {recorded['step']}",
                path=url.partition("?")[0],
                body=text.encode(),
                message=message,
                warnings=tuple(json.loads(f'"{w}"') for w in WARNING.findall(recorded["warning"] or "")),
            )


def decoding_error(scheme: Scheme, exchange: Exchange, schema: Schema | None) -> str:
    """The codec's words about a body: an error, or the strict errors."""
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


def custom_schemas(shared: Path) -> dict[str, Schema]:
    """plural.group -> the schema of the first version, of every CustomResourceDefinition in the scenarios."""
    schemas: dict[str, Schema] = {}
    for path in sorted((shared / "golden/scenarios").glob("*.yaml")):
        for step in yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["steps"]:
            body = step.get("body")
            if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
                version = ((body.get("spec") or {}).get("versions") or [{}])[0]
                source = (version.get("schema") or {}).get("openAPIV3Schema")
                if isinstance(source, dict):
                    schemas.setdefault(body["metadata"]["name"], from_openapi(source))
    return schemas


def schema_for(schemas: dict[str, Schema], path: str) -> Schema | None:
    parts = path.split("/")
    return next(
        (s for name, s in schemas.items() if name.split(".", 1)[1] in parts and name.split(".")[0] in parts), None
    )


def test_refusals_have_the_same_messages(shared_dir: Path) -> None:
    scheme, schemas, counts, faults = builtin_scheme(), custom_schemas(shared_dir), Counter[str](), []
    for exchange in exchanges(shared_dir):
        refused = REFUSED.fullmatch(exchange.message)
        if refused is None or any(word in refused[3] for word in ELSEWHERE):
            continue
        message = decoding_error(scheme, exchange, schema_for(schemas, exchange.path))
        expected = re.sub(r"<time>", lambda _: "…", refused[3])
        if re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", "…", message) != expected:
            faults.append(f"{exchange.where}: wanted {expected}, found {message}")
        counts["strict" if expected.startswith("strict") else "error"] += 1
    assert not faults, "\n".join(faults)
    assert counts == {"strict": 23, "error": 17}


def test_warnings_name_the_same_fields(shared_dir: Path) -> None:
    scheme, schemas, compared, faults = builtin_scheme(), custom_schemas(shared_dir), 0, []
    for exchange in exchanges(shared_dir):
        expected = [w for w in exchange.warnings if w.startswith(("unknown field", "duplicate field"))]
        if not expected:
            continue
        compared += 1
        message = decoding_error(scheme, exchange, schema_for(schemas, exchange.path)).removeprefix(
            "strict decoding error: "
        )
        if message != ", ".join(expected):
            faults.append(f"{exchange.where}: wanted {expected}, found {message}")
    assert not faults, "\n".join(faults)
    assert compared == 13


def test_unreadable_bodies_have_the_same_messages(shared_dir: Path) -> None:
    faults: list[Any] = []
    compared = 0
    for exchange in exchanges(shared_dir):
        if (unreadable := UNREADABLE.fullmatch(exchange.message)) is None:
            continue
        compared += 1
        try:
            kind = str(codec.read_kind(exchange.body))
        except codec.DecodeError as error:
            kind = str(error)
        if kind != unreadable[1]:
            faults.append(f"{exchange.where}: wanted {unreadable[1]}, found {kind}")
    assert not faults, "\n".join(faults)
    assert compared == 8
