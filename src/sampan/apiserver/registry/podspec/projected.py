"""Validation of projected volumes and of the items in volumes from secrets, config maps and the downward API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import (
    ConfigMapProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ProjectedVolumeSource,
    SecretProjection,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from sampan.apiserver.registry.podspec.env import VOLUME_FIELDS, field_ref_faults, resource_ref_faults
from sampan.apiserver.registry.podspec.file_paths import file_mode, non_reserved
from sampan.apiserver.registry.podspec.formats import Faults, given
from sampan.apiserver.registry.podspec.token_volume import is_token_source

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency

_LEAST_S, _MOST_S = 600, 2**32
_CONFLICT = "conflicting duplicate paths"


def key_faults(items: Sequence[KeyToPath], at: str) -> Faults:
    for index, item in enumerate(items):
        yield from _key(item, f"{at}[{index}]")


def _key(item: KeyToPath, at: str) -> Faults:
    yield from given(item.key, f"{at}.key")
    yield from given(item.path, f"{at}.path")
    yield from non_reserved(item.path, f"{at}.path")
    yield from file_mode(item.mode, f"{at}.mode")


def file_faults(file: DownwardAPIVolumeFile, at: str) -> Faults:
    yield from given(file.path, f"{at}.path")
    yield from non_reserved(file.path, f"{at}.path")
    if file.fieldRef is not None:
        yield from field_ref_faults(file.fieldRef, VOLUME_FIELDS, f"{at}.fieldRef")
        if file.resourceFieldRef is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield FieldError.invalid(at, "resource", text)
    elif file.resourceFieldRef is not None:
        yield from resource_ref_faults(file.resourceFieldRef, f"{at}.resourceFieldRef", needs_container=True)
    else:
        yield FieldError.required(at, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(file.mode, f"{at}.mode")


def projected_faults(source: ProjectedVolumeSource, lenient: Leniency, at: str) -> Faults:
    if is_token_source(source):
        return
    yield from file_mode(source.defaultMode, f"{at}.defaultMode")
    paths: set[str] = set()
    for index, part in enumerate(source.sources or ()):
        yield from _part(part, lenient, paths, f"{at}.sources[{index}]", at)


def _part(part: VolumeProjection, lenient: Leniency, paths: set[str], here: str, at: str) -> Faults:
    """Validate one source. Cluster trust bundles and pod certificates have been dropped as disabled."""
    if part.secret is not None:
        yield from _object(part.secret, paths, f"{here}.secret", at)
    if part.configMap is not None:
        yield from _object(part.configMap, paths, f"{here}.configMap", at)
    if part.downwardAPI is not None:
        for file in part.downwardAPI.items:
            yield from file_faults(file, f"{here}.downwardAPI")
            yield from _taken(file.path, paths, file.path, at)
    if part.serviceAccountToken is not None:
        yield from _token(part.serviceAccountToken, lenient, f"{here}.serviceAccountToken", at)
    given_parts = (part.secret, part.configMap, part.downwardAPI, part.serviceAccountToken)
    if sum(source is not None for source in given_parts) > 1:
        yield FieldError.forbidden(here, "may not specify more than 1 volume type per source")


def _object(source: SecretProjection | ConfigMapProjection, paths: set[str], here: str, at: str) -> Faults:
    yield from given(source.name, f"{here}.name")
    for index, item in enumerate(source.items):
        yield from _key(item, f"{here}.items[{index}]")
        yield from _taken(item.path, paths, source.name, at)


def _taken(path: str, paths: set[str], told: str, at: str) -> Faults:
    if path and path in paths:
        yield FieldError.invalid(at, told, _CONFLICT)
    paths.add(path)


def _token(token: ServiceAccountTokenProjection, lenient: Leniency, here: str, at: str) -> Faults:
    life_s = token.expirationSeconds or 0
    if life_s < _LEAST_S:
        text = "may not specify a duration less than 10 minutes"
        yield FieldError.invalid(f"{here}.expirationSeconds", life_s, text)
    if life_s > _MOST_S:
        text = "may not specify a duration larger than 2^32 seconds"
        yield FieldError.invalid(f"{here}.expirationSeconds", life_s, text)
    if not token.path:
        yield FieldError.required(f"{at}.path")
    else:
        for error in non_reserved(token.path, f"{at}.path"):
            if not lenient.far_token_paths:
                yield error
