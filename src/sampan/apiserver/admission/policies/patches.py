"""The patches of mutating admission policies: JSON patches and apply configurations
(`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from sampan.api.codec import json
from sampan.api.go_compat import conversion_errors
from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.versioned_object import VersionedObjects
from sampan.machinery import errors
from sampan.machinery.apply import SchemaMismatch
from sampan.machinery.apply.atoms import Atom, build_object_atom
from sampan.machinery.apply.merge import merge
from sampan.machinery.apply.validation import check, validate_live
from sampan.machinery.cel.errors import CelError, EvaluationError
from sampan.machinery.cel.runtime.json_values import configuration_value, json_value
from sampan.machinery.patch import PatchError, apply_json_patch, check_json_patch
from sampan.machinery.patch.errors import TestFailed, limit_depth

JSON_PATCH = "JSONPatch"


class _JsonNull(Enum):
    """The null of a test, which a missing member does not equal, unlike in the JSON patch of a request."""

    NULL = auto()


class MutationPatcher:
    """Applies the values of mutation expressions to the object of a request. `resource` is the version that matched."""

    def __init__(self, attributes: AdmissionAttributes, resource: Resource) -> None:
        self._attributes, self._resource = attributes, resource
        self._objects = VersionedObjects(attributes.registry, resource)

    async def apply(self, before: dict[str, Any], patch: Any, patch_type: str) -> bool:
        """Apply the value of a mutation expression to the object, whose value is `before`. Return whether the object
        has changed. Raise CelError or PatchError for a value that is no patch of the object, and InternalError for a
        JSON patch whose result is no such object."""
        if patch_type == JSON_PATCH:
            return await self._apply_json_patch(before, patch)
        after = self._merge_configuration(before, patch)
        if after == before:
            return False
        try:
            await self._objects.replace(self._attributes.obj, after)
        except json.DecodeError as error:
            codec = self._attributes.registry.codec_of(self._resource)
            why = conversion_errors.conversion_error(after, codec.schema, str(error))
            gvk = self._resource.gvk
            target = f"{self._resource.api_version if gvk.group else f'/{gvk.version}'}, Kind={gvk.kind}"
            raise CelError(f"unable to convert unstructured object to {target}: {why}") from None
        return True

    async def _apply_json_patch(self, before: dict[str, Any], patch: Any) -> bool:
        try:
            after = apply_json_patch(before, check_json_patch(_operations(patch)))
        except TestFailed:
            return False
        except PatchError as error:
            raise PatchError(f"JSON Patch: {error}") from None
        if after == before:
            return False
        self._require_known_kind(after)
        try:
            unknown_fields = await self._objects.replace(self._attributes.obj, after)
        except json.DecodeError as error:
            raise errors.internal_error(str(error)) from None
        if unknown_fields:
            raise errors.internal_error(f"strict decoding error: {', '.join(unknown_fields)}")
        return True

    def _require_known_kind(self, value: dict[str, Any]) -> None:
        """Raise InternalError if a patch has made the kind of the object one that does not exist."""
        kind = value.get("kind") or self._resource.gvk.kind
        api_version = value.get("apiVersion") or self._resource.api_version
        group, _, version = api_version.rpartition("/")
        if self._attributes.registry.scheme.find_by_kind(group, version, kind) is None:
            scheme = 'in scheme "pkg/runtime/scheme.go:111"'
            raise errors.internal_error(f'no kind "{kind}" is registered for version "{api_version}" {scheme}')

    @limit_depth
    def _merge_configuration(self, before: dict[str, Any], patch: Any) -> Any:
        title = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
        configuration = {**configuration_value(patch), **title}
        codec = self._attributes.registry.codec_of(self._resource)
        atom = build_object_atom(codec.schema, is_custom=self._resource.is_custom)
        try:
            check(configuration, atom)
        except SchemaMismatch as error:
            raise _application_error(f"failed to convert patch object to typed object: {error}") from None
        if atomic := list(_atomic_paths(configuration, atom, "")):
            paths = ", ".join(atomic)
            raise _application_error(
                f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"
            )
        if live_error := validate_live(before, atom):
            raise _application_error(f"failed to convert original object to typed object: {live_error}")
        return merge(before, configuration, atom)


def _application_error(text: str) -> CelError:
    return CelError(f"error applying patch: {text}")


@limit_depth
def _operations(patch: Any) -> list[dict[str, Any]]:
    """Return the operations of a JSON patch, from the value of an expression."""
    operations = []
    for value in patch:
        operation = {"op": value.get("op", ""), "path": value.get("path", "")}
        if value.get("from"):
            operation["from"] = value["from"]
        if "value" in value:
            try:
                operation["value"] = json_value(value["value"])
            except EvaluationError as error:
                text = f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
                raise CelError(text) from None
            if operation["op"] == "test" and operation["value"] is None:
                operation["value"] = _JsonNull.NULL
        operations.append(operation)
    return operations


def _atomic_paths(value: Any, atom: Atom, path: str) -> Iterator[str]:
    """Yield the paths of the lists and maps in an apply configuration that would replace those of the object."""
    if isinstance(value, dict) and atom.fields is not None:
        if atom.is_atomic_map:
            yield path
        for name in sorted(value):
            if (child := atom.fields[name]) is not None:
                yield from _atomic_paths(value[name], child, f"{path}.{name}")
    elif isinstance(value, list) and atom.is_list:
        if atom.is_atomic_list:
            yield path
        for index, item in enumerate(value):
            yield from _atomic_paths(item, atom.item(), f"{path}[{index}]")
