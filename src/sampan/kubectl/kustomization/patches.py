"""Patches of a kustomization: strategic merge patches and JSON patches."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from sampan.kubectl.documents import documents
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization.loader import KustomizationLoader
from sampan.kubectl.kustomization.resource import KustomizeResource, selector_matches

Value = dict[str, Any]

_MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "webhooks": ("name",),
}
"""Lists of built-in kinds that are merged by a key. Other lists are replaced."""
_BUILT_IN_GROUP_SUFFIXES = (".k8s.io",)
_UNQUALIFIED_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})


def apply_patch(
    resources: list[KustomizeResource], entry: Mapping[str, Any], loader: KustomizationLoader
) -> list[KustomizeResource]:
    """Apply an entry of `patches` and return the remaining resources."""
    text = str(entry.get("patch") or "") or _file_text(entry, loader)
    target = entry.get("target")
    values = list(documents(text, "patch"))
    if not values:
        raise KubectlError("must specify one of patch and path in\n" + text)
    if isinstance(values[0], list):
        if not target:
            raise KubectlError("must specify a target for JSON patch " + text)
        for resource in select(resources, target):
            _apply_json_patch(resource, values[0])
        return resources
    options = entry.get("options") or {}
    for patch in values:
        resources = apply_strategic_merge(resources, patch, target, options)
    return resources


def _file_text(entry: Mapping[str, Any], loader: KustomizationLoader) -> str:
    if not entry.get("path"):
        raise KubectlError("must specify one of patch and path in\n" + str(dict(entry)))
    return loader.read(str(entry["path"])).decode("utf-8", "replace")


def _apply_json_patch(resource: KustomizeResource, operations: list[Any]) -> None:
    from sampan.machinery.patch import apply_json_patch
    from sampan.machinery.patch.errors import PatchError

    try:
        resource.value = apply_json_patch(resource.value, operations)
    except PatchError as error:
        raise KubectlError(str(error)) from None


def select(resources: Iterable[KustomizeResource], target: Mapping[str, Any]) -> list[KustomizeResource]:
    """Return the resources that a target selects: by patterns of group, version, kind, names, and by selectors."""
    return [resource for resource in resources if _is_selected(resource, target)]


def _is_selected(resource: KustomizeResource, target: Mapping[str, Any]) -> bool:
    import re2

    def matches(pattern: Any, text: str) -> bool:
        return not pattern or re2.fullmatch(f"(?:{pattern})", text) is not None

    names = [*resource.names, (resource.name, resource.namespace)]
    if not all(matches(target.get(field), getattr(resource, field)) for field in ("group", "version", "kind")):
        return False
    if not any(matches(target.get("name"), name) for name, _ in names):
        return False
    if not any(matches(target.get("namespace"), namespace) for _, namespace in names):
        return False
    for field, values in (("labelSelector", "labels"), ("annotationSelector", "annotations")):
        if target.get(field) and not selector_matches(str(target[field]), resource.metadata.get(values) or {}):
            return False
    return True


# -- strategic merge -------------------------------------------------------------------------------------------------


def apply_strategic_merge(
    resources: list[KustomizeResource],
    patch: Value,
    target: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[KustomizeResource]:
    if not isinstance(patch, dict):
        raise KubectlError("a patch must be an object")
    selected = select(resources, target) if target else [_find_target(resources, patch)]
    remaining = list(resources)
    for resource in selected:
        if patch.get("$patch") == "delete":
            remaining.remove(resource)
            continue
        identity = (resource.value.get("apiVersion"), resource.kind, resource.name, resource.namespace)
        is_built_in = resource.group in _UNQUALIFIED_GROUPS or resource.group.endswith(_BUILT_IN_GROUP_SUFFIXES)
        merged = merge(resource.value, copy.deepcopy(patch), merges_lists=is_built_in)
        _restore_identity(merged, identity, options or {})
        resource.value = merged
    return remaining


def _restore_identity(value: Value, identity: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    api_version, kind, name, namespace = identity
    if not options.get("allowKindChange"):
        value["apiVersion"], value["kind"] = api_version, kind
    if not options.get("allowNameChange"):
        value["metadata"]["name"] = name
    if namespace:
        value["metadata"]["namespace"] = namespace
    else:
        value["metadata"].pop("namespace", None)


def _find_target(resources: list[KustomizeResource], patch: Value) -> KustomizeResource:
    metadata = patch.get("metadata") or {}
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "")
    model = KustomizeResource(patch)
    matches = [
        resource
        for resource in resources
        if (resource.group, resource.kind) == (model.group, model.kind) and resource.had_name(name, namespace)
    ]
    target = f"failed to find unique target for patch {model.identity_text}"
    if not matches:
        reason = f"no matches for Id {model.identity_text}; {target}"
        raise KubectlError(f'no resource matches strategic merge patch "{model.identity_text}": {reason}')
    if len(matches) > 1:
        raise KubectlError(f"multiple matches for Id {model.identity_text}; {target}")
    return matches[0]


def merge(original: Any, patch: Any, field: str = "", *, merges_lists: bool = True) -> Any:
    """Merge a patch into a value. A null removes a field; items that a patch names come first in lists."""
    if isinstance(patch, dict):
        directive = patch.pop("$patch", None)
        if directive == "replace" or not isinstance(original, dict):
            return _strip_directives(patch)
        result = dict(original)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            elif key in result:
                result[key] = merge(result[key], value, key, merges_lists=merges_lists)
            else:
                result[key] = _strip_directives(value)
        return result
    if isinstance(patch, list) and isinstance(original, list):
        return _merge_list(original, patch, field, merges_lists)
    return patch


def _merge_list(original: list[Any], patch: list[Any], field: str, merges_lists: bool) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [
            _strip_directives(item)
            for item in patch
            if not (isinstance(item, dict) and item.get("$patch") == "replace")
        ]
    key = _merge_key(original, patch, field) if merges_lists else None
    if field == "finalizers":
        return [*original, *(item for item in patch if item not in original)]
    if key is None:
        return [_strip_directives(item) for item in patch]
    remaining_items, merged = list(original), []
    for item in patch:
        old = next((entry for entry in remaining_items if entry.get(key) == item.get(key)), None)
        if old is not None:
            remaining_items.remove(old)
        if item.get("$patch") != "delete":
            merged.append(merge(old, item, merges_lists=merges_lists) if old is not None else _strip_directives(item))
    return [*merged, *remaining_items]


def _merge_key(original: list[Any], patch: list[Any], field: str) -> str | None:
    items = [*original, *patch]
    for key in _MERGE_KEYS.get(field, ()):
        if items and all(isinstance(item, dict) and key in item for item in items):
            return key
    return None


def _strip_directives(value: Any) -> Any:
    """Return a copy of a patch value without directives and nulls, for a place where the original has no value."""
    if isinstance(value, dict):
        return {key: _strip_directives(part) for key, part in value.items() if part is not None and key != "$patch"}
    if isinstance(value, list):
        return [_strip_directives(item) for item in value]
    return value
