"""Validation of the versions of AdmissionReview and ConversionReview that a webhook accepts."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors

_KNOWN = ("v1", "v1beta1")
ONE_OF_THEM = f"must specify one of {', '.join(_KNOWN)}"


def has_known(versions: Sequence[str]) -> bool:
    return not set(versions).isdisjoint(_KNOWN)


def validate_review_versions(versions: Sequence[str], at: str, *, needs_known: bool, missing: str = "") -> FieldErrors:
    """Yield the errors of the list. `missing` is the message if it is empty."""
    if not versions:
        yield FieldError.required(at, missing)
        return
    distinct_versions: set[str] = set()
    for index, version in enumerate(versions):
        if version in distinct_versions:
            yield FieldError.invalid(f"{at}[{index}]", version, "duplicate version")
            continue
        distinct_versions.add(version)
        for text in names.dns1035_label(version):
            yield FieldError.invalid(f"{at}[{index}]", version, text)
    if needs_known and not has_known(versions):
        yield FieldError.invalid(at, versions, f"must include at least one of {', '.join(_KNOWN)}")
