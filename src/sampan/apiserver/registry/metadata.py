"""What holds for the metadata of every object: which fields the server keeps, and the faults that any kind can have."""

from collections.abc import Callable, Mapping, Sequence

from sampan.api import gotext, names
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.machinery.errors import FieldError, Path

NameFaults = Callable[[str, bool], list[str]]
"""The faults of a name or, with True, of a generateName prefix."""

METADATA = Path("metadata")
_ANNOTATIONS_MOST = 256 * 1024
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_STANDARD_FINALIZERS = frozenset({_FOREGROUND, _ORPHAN, "kubernetes"})


def faults_of_new(meta: ObjectMeta, is_namespaced: bool, name_faults: NameFaults) -> list[FieldError]:
    """Every fault of the metadata of an object that is about to be created."""
    faults: list[FieldError] = []
    if meta.generateName:
        at = METADATA / "generateName"
        faults += [FieldError.invalid(at, meta.generateName, text) for text in name_faults(meta.generateName, True)]
    if not meta.name:
        faults.append(FieldError.required(METADATA / "name", "name or generateName is required"))
    else:
        faults += [FieldError.invalid(METADATA / "name", meta.name, text) for text in name_faults(meta.name, False)]
    faults += _namespace_faults(meta.namespace, is_namespaced)
    if meta.generation < 0:
        text = "must be greater than or equal to 0"
        faults.append(FieldError.invalid(METADATA / "generation", meta.generation, text))
    faults += _body_faults(meta)
    if meta.finalizers:
        faults += _finalizer_faults(meta.finalizers)
        faults += _finalizer_name_faults(meta.finalizers)
    return faults


def faults_of_change(meta: ObjectMeta, old: ObjectMeta) -> list[FieldError]:
    """Every fault of the change from `old` to `meta`."""
    faults: list[FieldError] = []
    if old.deletionTimestamp is not None and (new := [f for f in meta.finalizers if f not in old.finalizers]):
        added = ", ".join(gotext.quote(f) for f in sorted(new))
        text = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added}}}"
        )
        faults.append(FieldError.forbidden(METADATA / "finalizers", text))
    faults += [
        FieldError.invalid(METADATA / field, getattr(meta, field), "field is immutable")
        for field in _IMMUTABLE
        if getattr(meta, field) != getattr(old, field)
    ]
    return [*faults, *_body_faults(meta), *_finalizer_name_faults(meta.finalizers)]


def keep_system_fields(meta: ObjectMeta, old: ObjectMeta) -> None:
    """Take from `old` what a client does not decide."""
    if not meta.uid:
        meta.uid = old.uid
    meta.selfLink = ""
    meta.creationTimestamp = old.creationTimestamp
    if old.deletionTimestamp is not None:
        meta.deletionTimestamp = old.deletionTimestamp
    if old.deletionGracePeriodSeconds is not None:
        meta.deletionGracePeriodSeconds = old.deletionGracePeriodSeconds


def _namespace_faults(namespace: str, is_namespaced: bool) -> list[FieldError]:
    at = METADATA / "namespace"
    if not is_namespaced:
        return [FieldError.forbidden(at, "not allowed on this type")] if namespace else []
    if not namespace:
        return [FieldError.required(at)]
    return [FieldError.invalid(at, namespace, text) for text in names.dns1123_label(namespace)]


def _body_faults(meta: ObjectMeta) -> list[FieldError]:
    return [
        *label_faults(meta.labels, METADATA / "labels"),
        *annotation_faults(meta.annotations, METADATA / "annotations"),
        *_owner_faults(meta.ownerReferences),
    ]


def label_faults(labels: Mapping[str, str], at: Path | str) -> list[FieldError]:
    faults: list[FieldError] = []
    for key in sorted(labels):
        faults += [FieldError.invalid(at, key, text) for text in names.qualified_name(key)]
        faults += [FieldError.invalid(at, labels[key], text) for text in names.label_value(labels[key])]
    return faults


def annotation_faults(annotations: Mapping[str, str], at: Path | str) -> list[FieldError]:
    faults: list[FieldError] = []
    size = 0
    for key, value in sorted(annotations.items()):
        faults += [FieldError.invalid(at, key, text) for text in names.qualified_name(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_MOST:
        faults.append(FieldError.too_long(at, _ANNOTATIONS_MOST))
    return faults


def _owner_faults(owners: Sequence[OwnerReference]) -> list[FieldError]:
    faults: list[FieldError] = []
    at = METADATA / "ownerReferences"
    controller: OwnerReference | None = None
    for owner in owners:
        faults += _one_owner_faults(owner, at)
        if not owner.controller:
            continue
        if controller is not None:
            text = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller.kind}/{controller.name} and {owner.kind}/{owner.name}"
            )
            faults.append(FieldError.invalid(at, list(owners), text))
        else:
            controller = owner
    return faults


def _one_owner_faults(owner: OwnerReference, at: Path) -> list[FieldError]:
    faults: list[FieldError] = []
    version = owner.apiVersion.rpartition("/")[2]
    if not version:
        faults.append(FieldError.invalid(at / "apiVersion", owner.apiVersion, "version must not be empty"))
    faults += [
        FieldError.invalid(at / field, "", "must not be empty")
        for field in ("kind", "name", "uid")
        if not getattr(owner, field)
    ]
    if (owner.kind, owner.apiVersion) == ("Event", "v1"):
        faults.append(FieldError.invalid(at, "/v1, Kind=Event", "/v1, Kind=Event is disallowed from being an owner"))
    return faults


def _finalizer_faults(finalizers: Sequence[str]) -> list[FieldError]:
    at = METADATA / "finalizers"
    faults: list[FieldError] = []
    for finalizer in finalizers:
        faults += [FieldError.invalid(at, finalizer, text) for text in names.qualified_name(finalizer)]
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        text = f"finalizer {_FOREGROUND} and {_ORPHAN} cannot be both set"
        faults.append(FieldError.invalid(at, list(finalizers), text))
    return faults


def _finalizer_name_faults(finalizers: Sequence[str]) -> list[FieldError]:
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        FieldError.invalid((METADATA / "finalizers")[index], finalizer, text)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


__all__ = [
    "METADATA",
    "NameFaults",
    "annotation_faults",
    "faults_of_change",
    "faults_of_new",
    "keep_system_fields",
    "label_faults",
]
