"""Validation of annotations with a meaning for the server: mirror pods, deletion cost, deprecated security profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.semantics.pod_references import CONFIG_MIRROR
from sampan.api.types.core_v1 import PodSpec
from sampan.apiserver.registry.podspec import profiles
from sampan.apiserver.registry.podspec.formats import FieldErrors

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: PodSpec, options: PodValidationOptions, at: str
) -> FieldErrors:
    if not annotations:
        return
    if CONFIG_MIRROR in annotations and not spec.nodeName:
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield FieldError.invalid(f"{at}[{CONFIG_MIRROR}]", annotations[CONFIG_MIRROR], text)
    if has_bad_deletion_cost(annotations) and not options.bad_deletion_cost:
        yield FieldError.invalid(f"{at}[{_DELETION_COST}]", annotations[_DELETION_COST], "must be a 32bit integer")
    yield from profiles.validate_profile_annotations(annotations, spec, at)


def has_bad_deletion_cost(annotations: Mapping[str, str]) -> bool:
    cost = annotations.get(_DELETION_COST)
    if cost is None or cost == "0":
        return False
    digits = cost.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits is cost and digits.startswith("0")):
        return True
    return not -(2**31) <= int(cost[:20]) < 2**31


def validate_pod_annotation_update(new: Mapping[str, str], old: Mapping[str, str], at: str) -> FieldErrors:
    """Yield errors for changes of immutable annotations."""
    for key in sorted(old):
        if new.get(key) != old[key]:
            if key.startswith(profiles.APPARMOR):
                yield FieldError.forbidden(f"{at}[{key}]", "may not remove or update AppArmor annotations")
            if key == CONFIG_MIRROR:
                yield FieldError.forbidden(f"{at}[{key}]", "may not remove or update mirror pod annotation")
    for key in sorted(new.keys() - old.keys()):
        if key.startswith(profiles.APPARMOR):
            yield FieldError.forbidden(f"{at}[{key}]", "may not add AppArmor annotations")
        if key == CONFIG_MIRROR:
            yield FieldError.forbidden(f"{at}[{key}]", "may not add mirror pod annotation")
