"""The annotation in which client-side `kubectl apply` stores the last applied object, and the migration by `kubectl
apply --server-side`: fields that still have the values in the annotation do not conflict, and the annotation is kept up
to date."""

from typing import Any

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.machinery.apply import sets
from sampan.machinery.apply.applier import Conflicts
from sampan.machinery.apply.atoms import Atom
from sampan.machinery.apply.comparison import compare
from sampan.machinery.apply.field_sets import claimed
from sampan.machinery.apply.items import Misfit
from sampan.machinery.apply.sets import Fields
from sampan.machinery.apply.validation import check

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""The name of the field manager whose applies migrate an object from client-side apply."""

_ANNOTATIONS_MOST = 256 * 1024


def remaining(conflicts: Conflicts, live: dict[str, Any], version: str, atom: Atom) -> Conflicts | None:
    """Return the conflicts that do not stem from client-side apply; None if there are none."""
    inherited = _inherited(live, version, atom)
    if inherited is None:
        return conflicts
    others = [(owner, path) for owner, path in conflicts.conflicts if not sets.has(inherited, path)]
    return Conflicts(others) if others else None


def _inherited(live: dict[str, Any], version: str, atom: Atom) -> Fields | None:
    """Return the fields of the annotation that have the same values in the live object."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return None
    try:
        value, _ = json.decode_any(text.encode())
        if not isinstance(value, dict) or value.get("apiVersion") != version:
            return None
        check(value, atom)
        comparison = compare(value, live, atom)
    except (json.DecodeError, Misfit):
        return None
    changed = sets.union(sets.union(comparison.modified, comparison.added), comparison.removed)
    return sets.difference(claimed(value, atom), changed)


def renewed(value: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """Return the object with its annotation, if present, updated to the applied object. It is removed if it becomes too
    large."""
    annotations = _annotations(value)
    if not annotations.get(ANNOTATION):
        return value
    annotations = {**annotations, ANNOTATION: gotext.json_text(_without_annotation(applied)) + "\n"}
    if sum(len(key.encode()) + len(str(text).encode()) for key, text in annotations.items()) > _ANNOTATIONS_MOST:
        del annotations[ANNOTATION]
    return {**value, "metadata": {**value["metadata"], "annotations": annotations}}


def _annotations(value: dict[str, Any]) -> dict[str, Any]:
    return (value.get("metadata") or {}).get("annotations") or {}


def _without_annotation(applied: dict[str, Any]) -> dict[str, Any]:
    annotations = _annotations(applied)
    if ANNOTATION not in annotations:
        return applied
    kept = {key: text for key, text in annotations.items() if key != ANNOTATION}
    return {**applied, "metadata": {**applied["metadata"], "annotations": kept}}
