"""Print objects as JSON, YAML, KYAML or by name (`cli-runtime/pkg/printers`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import msgspec


def as_yaml(value: Any) -> str:
    from sampan.api.codec import yaml

    return yaml.encode(value).decode().rstrip("\n")


def as_json(value: Any, *, is_sorted: bool = True) -> str:
    """Return indented JSON, sorted by keys unless `is_sorted` is false, with the characters escaped that Go escapes."""
    text = msgspec.json.format(msgspec.json.encode(value, order="sorted" if is_sorted else None), indent=4).decode()
    if "<" in text or ">" in text or "&" in text or "\u2028" in text or "\u2029" in text:
        for char in "<>&\u2028\u2029":
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def without_managed_fields(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object, or a list of objects, without metadata.managedFields."""
    if isinstance(value.get("items"), list):
        value = {**value, "items": [without_managed_fields(item) for item in value["items"]]}
    if "metadata" not in value:
        return value
    metadata = {key: part for key, part in (value["metadata"] or {}).items() if key != "managedFields"}
    return {**value, "metadata": metadata}


def is_list(value: dict[str, Any]) -> bool:
    return isinstance(value.get("items"), list) and str(value.get("kind", "")).endswith("List")


def qualified_name(value: dict[str, Any]) -> str:
    """Return KIND[.GROUP]/NAME of an object."""
    group = str(value.get("apiVersion", "")).rpartition("/")[0]
    kind = str(value.get("kind", "")).lower()
    name = (value.get("metadata") or {}).get("name") or "<unknown>"
    return f"{kind}.{group}/{name}" if group else f"{kind}/{name}"


@dataclass(slots=True)
class JsonPrinter:
    shows_managed_fields: bool = False
    is_sorted: bool = True
    """Whether fields are printed in alphabetical order. kubectl prints objects of types that it knows in the order of
    their declaration."""

    def print(self, value: dict[str, Any]) -> None:
        shown = value if self.shows_managed_fields else without_managed_fields(value)
        click.echo(as_json(shown, is_sorted=self.is_sorted))


@dataclass(slots=True)
class YamlPrinter:
    shows_managed_fields: bool = False
    _count: int = 0

    def print(self, value: dict[str, Any]) -> None:
        if self._count:
            click.echo("---")
        self._count += 1
        click.echo(as_yaml(value if self.shows_managed_fields else without_managed_fields(value)))


@dataclass(slots=True)
class KyamlPrinter:
    shows_managed_fields: bool = False

    def print(self, value: dict[str, Any]) -> None:
        from sampan.kubectl.printers.kyaml import as_kyaml

        click.echo(as_kyaml(value if self.shows_managed_fields else without_managed_fields(value)))


@dataclass(slots=True)
class NamePrinter:
    """Prints KIND/NAME, followed by the operation unless the output is `name`."""

    operation: str = ""

    def print(self, value: dict[str, Any]) -> None:
        for item in value["items"] if is_list(value) else [value]:
            click.echo(qualified_name(item) + (f" {self.operation}" if self.operation else ""))
