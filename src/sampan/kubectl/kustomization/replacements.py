"""Replacements of a kustomization: copy a field of one object into fields of others."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization.patches import select
from sampan.kubectl.kustomization.resource import KustomizeResource

_PART = re.compile(r"\[[^\[\]]*+\]|(?:\\.|[^.\\\[])+")


def apply_replacement(resources: list[KustomizeResource], replacement: Mapping[str, Any]) -> None:
    if not replacement.get("targets"):
        raise KubectlError("replacements must specify a source and at least one target")
    value = _source_value(resources, replacement)
    for target in replacement["targets"]:
        if not target.get("select"):
            raise KubectlError("target must specify resources to select")
        rejected = [resource for entry in target.get("reject") or () for resource in _select(resources, entry)]
        for resource in _select(resources, target["select"]):
            if not any(resource is rejected_resource for rejected_resource in rejected):
                for path in target.get("fieldPaths") or ["metadata.name"]:
                    _set_field(resource, str(path), value, target.get("options") or {})


def _select(resources: list[KustomizeResource], entry: Mapping[str, Any]) -> list[KustomizeResource]:
    literal = {
        key: re.escape(str(value)) if key in ("name", "namespace", "kind", "group", "version") else value
        for key, value in entry.items()
    }
    return select(resources, literal)


def _source_value(resources: list[KustomizeResource], replacement: Mapping[str, Any]) -> Any:
    if "sourceValue" in replacement:
        return replacement["sourceValue"]
    source = replacement.get("source") or {}
    matches = _select(resources, {key: source[key] for key in source if key not in ("fieldPath", "options")})
    if not matches:
        raise KubectlError(f"nothing selected by {_selector_text(source)}")
    if len(matches) > 1:
        raise KubectlError(f"multiple matches for selector {_selector_text(source)}")
    path = str(source.get("fieldPath") or "metadata.name")
    values = [holder[key] for holder, key in _places(matches[0].value, _parts(path), creates=False)]
    if not values:
        raise KubectlError(f"fieldPath `{path}` is missing for replacement source {_selector_text(source)}")
    options = source.get("options") or {}
    if options.get("delimiter"):
        parts = str(values[0]).split(str(options["delimiter"]))
        index = int(options.get("index") or 0)
        if not 0 <= index < len(parts):
            raise KubectlError(f"options.index {index} is out of bounds for value {values[0]}")
        return parts[index]
    return values[0]


def _selector_text(source: Mapping[str, Any]) -> str:
    group, version = source.get("group") or "[noGrp]", source.get("version") or "[noVer]"
    kind, name = source.get("kind") or "[noKind]", source.get("name") or "[noName]"
    path = f":{source['fieldPath']}" if source.get("fieldPath") else ""
    return f"{kind}.{version}.{group}/{name}.{source.get('namespace') or '[noNs]'}{path}"


def _parts(path: str) -> list[str]:
    """Split `spec.containers.[name=web].image`; a backslash escapes a dot."""
    return [part.replace("\\.", ".") for part in _PART.findall(path)]


def _places(value: Any, parts: list[str], *, creates: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the container (object or list) and the key of each field at a path."""
    part, remaining_parts = parts[0], parts[1:]
    for key in _keys(value, part, creates=creates):
        if not remaining_parts:
            yield value, key
            continue
        if creates and isinstance(value, dict) and value.get(key) is None:
            value[key] = {}
        yield from _places(value[key], remaining_parts, creates=creates)


def _keys(value: Any, part: str, *, creates: bool) -> list[Any]:
    if isinstance(value, list):
        if part in ("*", "[*]"):
            return list(range(len(value)))
        if part.startswith("[") and "=" in part:
            name, _, text = part[1:-1].partition("=")
            keys = [
                index
                for index, item in enumerate(value)
                if (isinstance(item, dict) and str(item.get(name)) == text) or (not name and str(item) == text)
            ]
            if not keys and creates:
                value.append({name: text})
                keys = [len(value) - 1]
            return keys
        index = part.strip("[]")
        return [int(index)] if index.isdecimal() and int(index) < len(value) else []
    if isinstance(value, dict):
        if part == "*":
            return list(value)
        name = part[1:-1] if part.startswith("[") else part
        return [name] if name in value or creates else []
    return []


def _set_field(resource: KustomizeResource, path: str, value: Any, options: Mapping[str, Any]) -> None:
    places = list(_places(resource.value, _parts(path), creates=bool(options.get("create"))))
    if not places:
        raise KubectlError(
            f"unable to find field `{path}` in replacement target"
            if not options.get("create")
            else f"unable to find or create field `{path}` in replacement target"
        )
    for holder, key in places:
        current = holder[key] if isinstance(holder, list) else holder.get(key)
        holder[key] = _replace_part(current, value, options)


def _replace_part(current: Any, value: Any, options: Mapping[str, Any]) -> Any:
    delimiter = str(options.get("delimiter") or "")
    if not delimiter:
        return copy.deepcopy(value)
    parts, index = str(current or "").split(delimiter), int(options.get("index") or 0)
    if index < 0:
        parts.insert(0, str(value))
    elif index >= len(parts):
        parts.append(str(value))
    else:
        parts[index] = str(value)
    return delimiter.join(parts)
