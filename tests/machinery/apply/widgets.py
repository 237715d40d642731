"""A kind with fields of every type, and field managers for its objects."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema.tree import from_openapi
from sampan.api.types.meta_v1 import ManagedFieldsEntry
from sampan.machinery.apply import AllFieldsFilter, FieldFilter, MissingVersion
from sampan.machinery.apply.atoms import Atom, build_object_atom
from sampan.machinery.apply.field_manager import FieldManager
from sampan.machinery.apply.field_sets import FieldSetCache

GROUP = "example.com"
NOW, BEFORE = "2030-01-01T00:00:00Z", "2021-01-01T00:00:00Z"

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def keyed_list_schema(*keys: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "items": record(**fields),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }


SPEC: dict[str, Any] = {
    "text": TEXT,
    "number": NUMBER,
    "flag": {"type": "boolean"},
    "plain": {"type": "array", "items": TEXT},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "numbers": {"type": "array", "items": NUMBER, "x-kubernetes-list-type": "set"},
    "named": keyed_list_schema("name", name=TEXT, value=NUMBER, note=TEXT),
    "ports": keyed_list_schema("port", "protocol", port=NUMBER, protocol={**TEXT, "default": "TCP"}, note=TEXT),
    "loose": keyed_list_schema("a", "b", a=TEXT, b=NUMBER, c=TEXT),
    "record": record(a=TEXT, b=NUMBER),
    "whole": {**record(a=TEXT, b=NUMBER), "x-kubernetes-map-type": "atomic"},
    "map": {"type": "object", "additionalProperties": TEXT},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "either": {"x-kubernetes-int-or-string": True},
}


def kind_schema(**spec: Any) -> dict[str, Any]:
    return record(spec=record(**spec), status=record(phase=TEXT))


class Forms:
    """Schemas of a kind by version. The versions differ only in the name of spec.text, which `renamed` gives."""

    def __init__(self, schemas: dict[str, Any], renamed: dict[str, str] | None = None) -> None:
        self._renamed = renamed or {}
        self._atoms = {
            f"{GROUP}/{version}": build_object_atom(from_openapi(schema), is_custom=True)
            for version, schema in schemas.items()
        }

    def atom(self, api_version: str) -> Atom:
        if api_version not in self._atoms:
            raise MissingVersion(api_version)
        return self._atoms[api_version]

    def convert(self, value: Any, api_version: str) -> Any:
        self.atom(api_version)
        old, new = (self._renamed.get(version.rpartition("/")[2], "") for version in (value["apiVersion"], api_version))
        out = {**value, "apiVersion": api_version}
        if isinstance(out.get("spec"), dict):
            out["spec"] = {new if name == old else name: part for name, part in out["spec"].items()}
        return out


FORMS = Forms({"v1": kind_schema(**SPEC)})
ATOM = FORMS.atom(f"{GROUP}/v1")
SPEC_ATOM = ATOM.child("spec")


def make_field_manager(
    forms: Forms = FORMS, *, version: str = "v1", subresource: str = "", ignored: FieldFilter | None = None
) -> FieldManager:
    return FieldManager(
        kind=GroupVersionKind(group=GROUP, version=version, kind="Widget"),
        subresource=subresource,
        forms=forms,
        ignored=ignored or AllFieldsFilter(),
        field_sets=FieldSetCache(forms),
        empty=widget(version),
    )


def widget(version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", **parts}


def with_spec(**spec: Any) -> dict[str, Any]:
    return widget(metadata={"name": "w"}, spec=spec)


def entry(
    manager: str,
    fields: dict[str, Any],
    *,
    operation: str = "Update",
    version: str = "v1",
    subresource: str = "",
    time: str | None = BEFORE,
) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=manager,
        operation=operation,
        apiVersion=f"{GROUP}/{version}",
        time=time,
        fieldsType="FieldsV1",
        fieldsV1=msgspec.Raw(msgspec.json.encode(fields)),
        subresource=subresource,
    )


def owned_fields(entries: list[ManagedFieldsEntry]) -> dict[str, Any]:
    """Return the fields of each manager, in the order of the entries."""
    return {entry.manager: msgspec.json.decode(entry.fieldsV1) for entry in entries}
