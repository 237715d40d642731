"""Validation of references to the scale target and to the objects of object metrics."""

from enum import Enum

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.autoscaling_v2 import CrossVersionObjectReference
from sampan.apiserver.registry.podspec.formats import FieldErrors


class Group(Enum):
    """How the API group in a reference's apiVersion is validated."""

    REQUIRED = "there must be one"
    OPTIONAL = "there may be none"
    ANYTHING = "it is not looked at"


def validate_object_reference(reference: CrossVersionObjectReference, at: str, group: Group) -> FieldErrors:
    for field in ("kind", "name"):
        value: str = getattr(reference, field)
        if not value:
            yield FieldError.required(f"{at}.{field}")
        for text in names.path_segment(value):
            yield FieldError.invalid(f"{at}.{field}", value, text)
    if text := find_group_error(reference, group):
        yield FieldError.invalid(f"{at}.apiVersion", reference.apiVersion, text)


def find_group_error(reference: CrossVersionObjectReference, group: Group) -> str:
    """Return what is wrong with the apiVersion, "" if nothing is."""
    version = reference.apiVersion
    if group is Group.ANYTHING:
        return ""
    if version.count("/") > 1:
        return f"unexpected GroupVersion string: {version}"
    if group is Group.REQUIRED and not version.rpartition("/")[0]:
        return "apiVersion must specify API group"
    return ""
