"""Validation of the spec of a PersistentVolumeClaim, and of claim templates in pods and stateful sets."""

from collections.abc import Iterator, Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.selectors.label_selector import label_errors, selector_errors
from sampan.api.types.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import quantity
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.podspec.resources import round_up
from sampan.apiserver.registry.validation import FieldErrors, validate_optional_one_of

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_UNSET = ObjectMeta()


def default_claim(claim: PersistentVolumeClaim) -> None:
    """Apply defaults to a claim in a template. Kind and apiVersion are always overwritten."""
    claim.kind, claim.apiVersion = "PersistentVolumeClaim", "v1"
    claim.status.phase = claim.status.phase or "Pending"
    if claim.spec.volumeMode is None:
        claim.spec.volumeMode = "Filesystem"
    for amounts in (
        *(claim.spec.resources.limits, claim.spec.resources.requests),
        *(claim.status.capacity, claim.status.allocatedResources),
    ):
        round_up(amounts)


def claim_warnings(spec: PersistentVolumeClaimSpec, field_path: str) -> Iterator[str]:
    resources = spec.resources
    for kind, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        text = amounts.get("storage", "0")
        if not text.isdigit() and quantity.parse(text).milli_value() % 1000:
            path = f"{field_path}.resources.{kind}[storage]"
            yield f"{path}: fractional byte value {gotext.quote(text)} is invalid, must be an integer"


def validate_claim_template(template: PersistentVolumeClaimTemplate, path: str) -> FieldErrors:
    yield from validate_template_metadata(template.metadata, f"{path}.metadata")
    yield from validate_claim_spec(template.spec, f"{path}.spec")


def validate_template_metadata(meta: ObjectMeta, path: str) -> FieldErrors:
    """Yield errors for any metadata of a template but labels and annotations."""
    yield from metadata.validate_annotations(meta.annotations, f"{path}.annotations")
    yield from label_errors(meta.labels, f"{path}.labels")
    for field in ObjectMeta.__struct_fields__:
        if field not in ("labels", "annotations") and getattr(meta, field) != getattr(_UNSET, field):
            yield FieldError.forbidden(f"{path}.{field}", "cannot be set")


def validate_claim_spec(
    spec: PersistentVolumeClaimSpec, path: str, *, allow_bad_values: bool = False, allow_bad_groups: bool = False
) -> FieldErrors:
    """Yield the errors of a claim's spec. The `allow_*` options tolerate invalid values that the old object has."""
    yield from _validate_access_modes(spec, f"{path}.accessModes", path, allow_bad_values)
    yield from _validate_storage(spec, f"{path}.resources[storage]")
    if spec.storageClassName:
        for text in names.dns1123_subdomain(spec.storageClassName):
            yield FieldError.invalid(f"{path}.storageClassName", spec.storageClassName, text)
    yield from validate_optional_one_of(spec.volumeMode, VOLUME_MODES, f"{path}.volumeMode")
    yield from _validate_sources(spec, path, allow_bad_groups)
    if spec.volumeAttributesClassName:
        for text in names.dns1123_subdomain(spec.volumeAttributesClassName):
            yield FieldError.invalid(f"{path}.volumeAttributesClassName", spec.volumeAttributesClassName, text)


def _validate_access_modes(
    spec: PersistentVolumeClaimSpec, item_path: str, path: str, allow_bad_values: bool
) -> FieldErrors:
    modes = spec.accessModes
    if not modes:
        yield FieldError.required(item_path, "at least 1 access mode is required")
    yield from selector_errors(spec.selector, f"{path}.selector", allow_bad_values=allow_bad_values)
    yield from validate_access_mode(modes, item_path)


def validate_access_mode(modes: Sequence[str], path: str) -> FieldErrors:
    for mode in modes:
        yield from validate_optional_one_of(mode, ACCESS_MODES, path)
    access_modes = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in access_modes and len(access_modes) > 1:
        yield FieldError.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _validate_storage(spec: PersistentVolumeClaimSpec, path: str) -> FieldErrors:
    text = spec.resources.requests.get("storage")
    if text is None:
        yield FieldError.required(path)
    elif quantity.parse(text).sign <= 0:
        yield FieldError.invalid(path, text, "must be greater than zero")


def _validate_sources(spec: PersistentVolumeClaimSpec, path: str, allow_bad_groups: bool) -> FieldErrors:
    source, ref = spec.dataSource, spec.dataSourceRef
    if source is not None:
        yield from _validate_typed_reference(source, f"{path}.dataSource", allow_bad_groups)
    if ref is not None:
        yield from _validate_typed_reference(ref, f"{path}.dataSourceRef", allow_bad_groups)
        if ref.namespace:
            for text in names.dns1123_label(ref.namespace):
                yield FieldError.invalid(f"{path}.dataSourceRef.namespace", ref.namespace, text)
    if source is None or ref is None:
        return
    if ref.namespace:
        yield _contradiction_error(path, "may not be specified when dataSourceRef.namespace is specified")
    elif (source.apiGroup, source.kind, source.name) != (ref.apiGroup, ref.kind, ref.name):
        yield _contradiction_error(path, "must match dataSourceRef")


def _contradiction_error(path: str, text: str) -> FieldError:
    return FieldError.invalid(path, f"{path}.dataSource", text)


def _validate_typed_reference(
    source: TypedLocalObjectReference | TypedObjectReference, path: str, allow_bad_group: bool
) -> FieldErrors:
    if not source.name:
        yield FieldError.required(f"{path}.name")
    if not source.kind:
        yield FieldError.required(f"{path}.kind")
    if not source.apiGroup:
        if source.kind != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield FieldError.invalid(path, source.kind, text)
        return
    for text in names.dns1123_subdomain(source.apiGroup) if not allow_bad_group else ():
        yield FieldError.invalid(f"{path}.apiGroup", source.apiGroup, text)
