"""JSON merge patch (RFC 7386): applying it, and computing it from two or three versions of an object."""

from typing import Any

from sampan.machinery.patch.errors import MalformedPatch, are_identical, cannot_unmarshal, limit_depth

Object = dict[str, Any]


def check_merge_patch(patch: Any) -> Object:
    """Return a decoded patch body. Raise MalformedPatch with kube-apiserver's message."""
    if patch is None:
        raise MalformedPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        complaint = cannot_unmarshal(patch, "value of type map[string]interface {}")
        raise MalformedPatch(f"error decoding patch: {complaint}")
    return patch


@limit_depth
def apply_merge_patch(document: Object, patch: Object) -> Object:
    """Return the document after the patch. It shares unchanged parts with both.

    As in kube-apiserver, nulls are removed from a new value even inside its lists, except where a list replaces an
    object.
    """
    return _merge(document, patch)


def _merge(document: Object, patch: Object) -> Object:
    result = document.copy()
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(result.get(key), value)
    return result


def _merge_value(current: Any, value: Any) -> Any:
    if not isinstance(current, dict):
        return _without_nulls(value)
    return _merge(current, value) if isinstance(value, dict) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value


@limit_depth
def merge_diff(original: Object, modified: Object) -> Object:
    """Return the merge patch that turns `original` into `modified`. Nulls in `modified` count as missing keys."""
    return _diff(original, modified)


def _diff(original: Object, modified: Object) -> Object:
    patch: Object = {}
    for key, new in modified.items():
        old = original.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if below := _diff(old, new):
                patch[key] = below
        elif key not in original or not are_identical(old, new):
            patch[key] = new
    patch.update((key, None) for key in original if key not in modified)
    return patch


@limit_depth
def three_way_merge_diff(original: Object, modified: Object, current: Object) -> Object:
    """Return the merge patch that brings `current` to the state that `modified` specifies.

    Fields of `modified` are set; fields that `original` (the last applied version) had and `modified` no longer has are
    removed; the other fields of `current` have other owners and are kept.
    """
    changes = _select_changes(_diff(current, modified))
    removals = _select_removals(_diff(original, modified))
    return _merge(removals, changes)


def _select_changes(patch: Object) -> Object:
    changes: Object = {}
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            if below := _select_changes(value):
                changes[key] = below
        elif value is not None:
            changes[key] = value
    return changes


def _select_removals(patch: Object) -> Object:
    removals: Object = {}
    for key, value in patch.items():
        if value is None:
            removals[key] = None
        elif isinstance(value, dict) and (below := _select_removals(value)):
            removals[key] = below
    return removals
