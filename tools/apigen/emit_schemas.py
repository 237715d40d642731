"""Write the schema data: every definition as a `sampan.api.schema.tree.Schema`, other definitions by reference."""

import json
from typing import Any

import go
import model
from model import Definition

PLAIN = {
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-list-map-keys": "list_keys",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-merge-key": "patch_key",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "enum": "enum",
}


def schemas(definitions: dict[str, Definition]) -> str:
    """One definition a line, so that a change shows as a short diff."""
    lines = (f"{json.dumps(name)}:{_compact(_definition(found))}" for name, found in definitions.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def go_types(definitions: dict[str, Definition]) -> str:
    """For error messages, per definition: the fields' types as Go prints them, where they are not the plain ones, and
    the embedded types that fields come through."""
    found = {name: _go_facts(definition) for name, definition in definitions.items()}
    lines = (f"{json.dumps(name)}:{_compact(facts)}" for name, facts in found.items() if facts)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _go_facts(definition: Definition) -> dict[str, dict[str, str]]:
    shown = {f.wire: go.printed_type(definition.name, f.go.text) for f in definition.fields}
    types = {wire: text for wire, text in shown.items() if text not in go.PRIMITIVES}
    via = {f.wire: ".".join(f.via) for f in definition.fields if f.via and f.via != ("TypeMeta",)}
    return ({"types": types} if types else {}) | ({"via": via} if via else {})


def _definition(found: Definition) -> dict[str, Any]:
    if found.name in model.SCALARS:
        return {"name": found.name, **model.SCALARS[found.name]}
    node: dict[str, Any] = (
        {"name": found.name} if found.name in model.UNIONS else {"type": "object", "name": found.name}
    )
    if items := model.UNIONS.get(found.name, {}).get("items"):
        node["items"] = _node(items)
    if found.fields:
        node["properties"] = {field.wire: _field(field) for field in found.fields}
    source = found.schema
    node |= {"required": source["required"]} if source.get("required") else {}
    node |= {"map_type": source["x-kubernetes-map-type"]} if "x-kubernetes-map-type" in source else {}
    node |= {"kinds": [list(kind) for kind in found.kinds]} if found.kinds else {}
    node |= {"unions": source["x-kubernetes-unions"]} if "x-kubernetes-unions" in source else {}
    return node


def _field(field: model.Field) -> dict[str, Any]:
    node = _node(field.schema)
    if _is_value(field.schema) and not field.go.pointer and (field.go.printed or model.ref(field.schema)):
        node["zero"] = True
    elif "default" in field.schema:
        node["default"] = field.schema["default"]
    return node


def _is_value(source: dict[str, Any]) -> bool:
    """Whether Go's zero value of it is worth showing as a default: structs, strings, numbers, booleans."""
    if target := model.ref(source):
        return target not in model.SCALARS and target not in model.UNIONS
    return source.get("type") in ("string", "integer", "number", "boolean") and source.get("format") != "byte"


def _node(source: dict[str, Any]) -> dict[str, Any]:
    node: dict[str, Any] = {"ref": target} if (target := model.ref(source)) else {}
    node |= {key: source[key] for key in ("type", "format") if key in source}
    node |= {name: source[key] for key, name in PLAIN.items() if source.get(key)}
    if strategy := source.get("x-kubernetes-patch-strategy"):
        node["patch_strategy"] = strategy.split(",")
    for key, name in (("items", "items"), ("additionalProperties", "additional")):
        if isinstance(source.get(key), dict):
            node[name] = _node(source[key]) | ({"zero": True} if _is_value(source[key]) else {})
    return node
