"""The metadata of every object: fields that the server controls, generated names, and common validation."""

import random
from collections.abc import Callable, Mapping, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError, FieldPath
from sampan.api.go_compat import gotext
from sampan.api.selectors.label_selector import label_errors
from sampan.api.types.meta_v1 import ManagedFieldsEntry, ObjectMeta, OwnerReference
from sampan.machinery import errors

_RANDOM = random.Random()
"""A private random number generator, because tests seed the shared one of the `random` module."""

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_NAME_LENGTH = 63
ATTEMPTS = 8
"""How many names are tried before creation fails with AlreadyExists."""


def generate_name(base: str) -> str:
    return base[: _MAX_GENERATED_NAME_LENGTH - _SUFFIX_LENGTH] + "".join(_RANDOM.choices(_ALPHABET, k=_SUFFIX_LENGTH))


ValidateName = Callable[[str, bool], list[str]]
"""A function that returns the errors of a name or, if its second argument is true, of a generateName prefix."""

METADATA = FieldPath("metadata")
_MAX_ANNOTATIONS_BYTES = 256 * 1024
_OPERATIONS = ("Apply", "Update")
_MAX_MANAGER_BYTES, _MAX_SUBRESOURCE_BYTES = 128, 256
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_DESCRIPTIVE = ("deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences")
_STANDARD_FINALIZERS = frozenset({_FOREGROUND, _ORPHAN, "kubernetes"})


def validate_object_meta(
    meta: ObjectMeta, is_namespaced: bool, validate_name: ValidateName, *, needs_qualified_finalizers: bool = True
) -> list[FieldError]:
    """Return all errors in the metadata of an object that is to be created.

    `needs_qualified_finalizers` is whether finalizers must be standard or fully qualified names.
    """
    field_errors = _validate_name(meta, validate_name)
    field_errors += _validate_namespace(meta.namespace, is_namespaced)
    if meta.generation < 0:
        text = "must be greater than or equal to 0"
        field_errors.append(FieldError.invalid(METADATA / "generation", meta.generation, text))
    field_errors += validate_labels_and_references(meta)
    if meta.finalizers:
        field_errors += _validate_finalizers(meta.finalizers)
        field_errors += _validate_finalizer_names(meta.finalizers) if needs_qualified_finalizers else []
    return field_errors


def refuse_version_of_new(text: str) -> None:
    """Raise an error if a new object has a resource version. Anything but a number is ignored."""
    if text and text.isascii() and text.isdigit() and text.strip("0"):
        raise errors.unexpected_error("resourceVersion should not be set on objects to be created")


def validate_object_meta_update(
    meta: ObjectMeta, old: ObjectMeta, *, needs_qualified_finalizers: bool = True
) -> list[FieldError]:
    """Return all errors in the metadata of an updated object, as often as kube-apiserver repeats them.

    It validates the new metadata, then the update, then the update again as a part of the kind's own validation.
    """
    change, body = _validate_immutable_fields(meta, old), validate_labels_and_references(meta)
    whole = [*_validate_generate_name(meta.generateName, validate_path_segment), *body]
    if meta.finalizers:
        whole += _validate_finalizers(meta.finalizers)
        own = _validate_finalizer_names(meta.finalizers) if needs_qualified_finalizers else []
    else:
        own = []
    return [*whole, *change, *body, *change, *body, *own]


def _validate_immutable_fields(meta: ObjectMeta, old: ObjectMeta) -> list[FieldError]:
    field_errors: list[FieldError] = []
    if old.deletionTimestamp is not None and (new := set(meta.finalizers).difference(old.finalizers)):
        added = ", ".join(gotext.quote(finalizer) for finalizer in sorted(new))
        text = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{added}}}"
        )
        field_errors.append(FieldError.forbidden(METADATA / "finalizers", text))
    field_errors += [
        FieldError.invalid(METADATA / field, getattr(meta, field), "field is immutable")
        for field in _IMMUTABLE
        if getattr(meta, field) != getattr(old, field)
    ]
    return field_errors


def _validate_name(meta: ObjectMeta, validate_name: ValidateName) -> list[FieldError]:
    field_errors = _validate_generate_name(meta.generateName, validate_name)
    if not meta.name:
        return [*field_errors, FieldError.required(METADATA / "name", "name or generateName is required")]
    field_errors += [FieldError.invalid(METADATA / "name", meta.name, text) for text in validate_name(meta.name, False)]
    return field_errors


def _validate_generate_name(prefix: str, validate_name: ValidateName) -> list[FieldError]:
    if not prefix:
        return []
    return [FieldError.invalid(METADATA / "generateName", prefix, text) for text in validate_name(prefix, True)]


def validate_path_segment(name: str, is_prefix: bool) -> list[str]:
    return names.path_segment(name, prefix=is_prefix)


def wipe_system_fields(meta: ObjectMeta) -> None:
    """Clear the fields of a new object that only the server sets."""
    meta.creationTimestamp = meta.deletionTimestamp = meta.deletionGracePeriodSeconds = None
    meta.uid = meta.selfLink = ""


def check_name_in_path(name: str) -> None:
    """Raise BadRequest for a name in a URL path that cannot be a part of a storage key."""
    if ("%" in name or "/" in name or name in (".", "..")) and (messages := names.path_segment(name)):
        raise errors.bad_request(f"Name parameter invalid: {gotext.quote(name)}: {';'.join(messages)}")


def keep_system_fields(meta: ObjectMeta, old: ObjectMeta) -> None:
    """Copy the fields from `old` that a client cannot change."""
    if not meta.uid:
        meta.uid = old.uid
    meta.selfLink = ""
    meta.creationTimestamp = old.creationTimestamp
    if old.deletionTimestamp is not None:
        meta.deletionTimestamp = old.deletionTimestamp
    if meta.deletionGracePeriodSeconds is None:
        meta.deletionGracePeriodSeconds = old.deletionGracePeriodSeconds


def keep_all_but_managed_fields(meta: ObjectMeta, old: ObjectMeta) -> None:
    """Undo every change of the metadata but that of managedFields, for a subresource that changes one part of the
    object.

    Afterwards `meta` shares its lists and maps with `old`, so they must not be modified.
    """
    for field in _DESCRIPTIVE:
        setattr(meta, field, getattr(old, field))


def _validate_namespace(namespace: str, is_namespaced: bool) -> list[FieldError]:
    path = METADATA / "namespace"
    if not is_namespaced:
        return [FieldError.forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [FieldError.required(path)]
    return [FieldError.invalid(path, namespace, text) for text in names.dns1123_label(namespace)]


def validate_labels_and_references(meta: ObjectMeta) -> list[FieldError]:
    field_errors: list[FieldError] = []
    if meta.labels:
        field_errors += label_errors(meta.labels, "metadata.labels")
    if meta.annotations:
        field_errors += validate_annotations(meta.annotations, "metadata.annotations")
    if meta.ownerReferences:
        field_errors += _validate_owner_references(meta.ownerReferences)
    return field_errors


def validate_annotations(annotations: Mapping[str, str], path: FieldPath | str) -> list[FieldError]:
    field_errors: list[FieldError] = []
    for key in sorted(annotations):
        field_errors += [FieldError.invalid(path, key, text) for text in names.qualified_name(key.lower())]
    return field_errors + validate_annotations_size(annotations, path)


def validate_annotations_size(annotations: Mapping[str, str], path: FieldPath | str) -> list[FieldError]:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    return [FieldError.too_long(path, _MAX_ANNOTATIONS_BYTES)] if size > _MAX_ANNOTATIONS_BYTES else []


def _validate_owner_references(owners: Sequence[OwnerReference]) -> list[FieldError]:
    field_errors: list[FieldError] = []
    path = METADATA / "ownerReferences"
    controller: OwnerReference | None = None
    for index, owner in enumerate(owners):
        field_errors += _validate_owner_reference(owner, path[index])
        if not owner.controller:
            continue
        if controller is not None:
            text = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller.kind}/{controller.name} and {owner.kind}/{owner.name}"
            )
            field_errors.append(FieldError.invalid(path, list(owners), text))
        else:
            controller = owner
    return field_errors


def _validate_owner_reference(owner: OwnerReference, path: FieldPath) -> list[FieldError]:
    field_errors = [
        FieldError.required(path / field, "must not be empty")
        for field in ("apiVersion", "kind", "name", "uid")
        if not getattr(owner, field)
    ]
    if owner.apiVersion and (owner.apiVersion.count("/") > 1 or owner.apiVersion.endswith("/")):
        text = "must be <group>/<version> or <version>"
        field_errors.insert(0, FieldError.invalid(path / "apiVersion", owner.apiVersion, text))
    if (owner.kind, owner.apiVersion) == ("Event", "v1"):
        field_errors.append(FieldError.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return field_errors


def validate_managed_fields(entries: Sequence[ManagedFieldsEntry]) -> list[FieldError]:
    """Return the errors of the managed fields of an embedded object; those of other objects are not validated."""
    field_errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        path = (METADATA / "managedFields")[index]
        if not entry.operation:
            field_errors.append(FieldError.required(path / "operation", "must not be empty"))
        elif entry.operation not in _OPERATIONS:
            field_errors.append(FieldError.not_supported(path / "operation", entry.operation, _OPERATIONS))
        if entry.fieldsType not in ("", "FieldsV1"):
            field_errors.append(FieldError.invalid(path / "fieldsType", entry.fieldsType, "must be `FieldsV1`"))
        if len(entry.manager.encode()) > _MAX_MANAGER_BYTES:
            field_errors.append(FieldError.too_long(path / "manager", _MAX_MANAGER_BYTES))
        if len(entry.subresource.encode()) > _MAX_SUBRESOURCE_BYTES:
            field_errors.append(FieldError.too_long(path / "subresource", _MAX_SUBRESOURCE_BYTES))
    return field_errors


def _validate_finalizers(finalizers: Sequence[str]) -> list[FieldError]:
    path = METADATA / "finalizers"
    field_errors: list[FieldError] = []
    for finalizer in finalizers:
        field_errors += [FieldError.invalid(path, finalizer, text) for text in names.qualified_name(finalizer)]
    if _FOREGROUND in finalizers and _ORPHAN in finalizers:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        field_errors.append(FieldError.invalid(path, list(finalizers), text))
    return field_errors


def _validate_finalizer_names(finalizers: Sequence[str]) -> list[FieldError]:
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        FieldError.invalid((METADATA / "finalizers")[index], finalizer, text)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]
