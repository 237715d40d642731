"""Validation of a pod's volumes and of the most common volume sources.

Sources of storage systems are in `storage_volumes`, projected volumes in `projected`, claim templates in `claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api import gotext, names, quantity
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeSource,
    ImageVolumeSource,
    PersistentVolumeClaimVolumeSource,
    SecretVolumeSource,
    Volume,
)
from sampan.apiserver.registry.podspec import storage_volumes as storage
from sampan.apiserver.registry.podspec.claims import validate_claim_template
from sampan.apiserver.registry.podspec.containers import PULL_POLICIES
from sampan.apiserver.registry.podspec.file_paths import validate_file_mode
from sampan.apiserver.registry.podspec.formats import (
    FieldErrors,
    validate_dns_label,
    validate_one_of,
    validate_required,
)
from sampan.apiserver.registry.podspec.projected import (
    validate_downward_api_file,
    validate_keys_to_paths,
    validate_projected_volume,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions


def validate_volumes(
    volumes: Sequence[Volume], pod_name: str, options: PodValidationOptions, at: str, good: dict[str, Volume]
) -> FieldErrors:
    """Yield the errors of all volumes, and add valid volumes to `good`: only these can be mounted.

    `pod_name` is empty for a template: the names of claims of ephemeral volumes are not validated then.
    """
    claims = {f"{pod_name}-{volume.name}" for volume in volumes if pod_name and volume.ephemeral is not None}
    for index, volume in enumerate(volumes):
        path = f"{at}[{index}]"
        errors = list(_validate_volume(volume, pod_name, options, path))
        if volume.name in good:
            errors.append(FieldError.duplicate(f"{path}.name", volume.name))
        if not errors:
            good[volume.name] = volume
        yield from errors
        claim = volume.persistentVolumeClaim
        if claim is not None and claim.claimName in claims:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            yield FieldError.invalid(f"{path}.persistentVolumeClaim.claimName", claim.claimName, text)


def _validate_volume(volume: Volume, pod_name: str, options: PodValidationOptions, at: str) -> FieldErrors:
    sources = [(name, source) for name in _SOURCES if (source := getattr(volume, name)) is not None]
    for index, (name, source) in enumerate(sources):
        if index > 0:
            yield FieldError.forbidden(f"{at}.{_TOLD_AS.get(name, name)}", "may not specify more than 1 volume type")
        else:
            yield from _SOURCES[name](source, options, f"{at}.{name}")
        if name == "iscsi":
            yield from storage.validate_iscsi_name(volume, at)
        if name == "ephemeral" and index == 0 and pod_name and volume.name:
            yield from _validate_claim_name(volume.name, f"{pod_name}-{volume.name}", f"{at}.name")
    if not sources:
        yield FieldError.required(at, "must specify a volume type")
    if not volume.name:
        yield FieldError.required(f"{at}.name")
    else:
        yield from validate_dns_label(volume.name, f"{at}.name")


def _validate_claim_name(volume: str, claim: str, at: str) -> FieldErrors:
    for text in names.dns1123_subdomain(claim):
        yield FieldError.invalid(at, volume, f"PVC name {gotext.quote(claim)}: {text}")


def _validate_empty_dir(source: Any, options: PodValidationOptions, at: str) -> FieldErrors:
    if source.sizeLimit is not None and quantity.parse(source.sizeLimit).sign < 0:
        yield FieldError.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_secret(source: SecretVolumeSource, options: PodValidationOptions, at: str) -> FieldErrors:
    yield from validate_required(source.secretName, f"{at}.secretName")
    yield from validate_file_mode(source.defaultMode, f"{at}.defaultMode")
    yield from validate_keys_to_paths(source.items, f"{at}.items")


def _validate_config_map(source: ConfigMapVolumeSource, options: PodValidationOptions, at: str) -> FieldErrors:
    yield from validate_required(source.name, f"{at}.name")
    yield from validate_file_mode(source.defaultMode, f"{at}.defaultMode")
    yield from validate_keys_to_paths(source.items, f"{at}.items")


def _validate_downward(source: DownwardAPIVolumeSource, options: PodValidationOptions, at: str) -> FieldErrors:
    yield from validate_file_mode(source.defaultMode, f"{at}.defaultMode")
    for file in source.items:
        yield from validate_downward_api_file(file, at)


def _validate_persistent_claim(
    source: PersistentVolumeClaimVolumeSource, options: PodValidationOptions, at: str
) -> FieldErrors:
    yield from validate_required(source.claimName, f"{at}.claimName")


def _validate_ephemeral(source: Any, options: PodValidationOptions, at: str) -> FieldErrors:
    if source.volumeClaimTemplate is None:
        yield FieldError.required(f"{at}.volumeClaimTemplate")
    else:
        yield from validate_claim_template(source.volumeClaimTemplate, f"{at}.volumeClaimTemplate")


def _validate_image(source: ImageVolumeSource, options: PodValidationOptions, at: str) -> FieldErrors:
    if options.is_pod:
        yield from validate_required(source.reference, f"{at}.reference")
    yield from validate_one_of(source.pullPolicy, PULL_POLICIES, f"{at}.pullPolicy")


def _without_options(
    check: Callable[[Any, str], FieldErrors],
) -> Callable[[Any, PodValidationOptions, str], FieldErrors]:
    return lambda source, _, at: check(source, at)


_SOURCES: Mapping[str, Callable[[Any, PodValidationOptions, str], FieldErrors]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _without_options(storage.validate_host_path),
    "gitRepo": _without_options(storage.validate_git_repo),
    "gcePersistentDisk": _without_options(storage.validate_gce_disk),
    "awsElasticBlockStore": _without_options(storage.validate_aws_disk),
    "secret": _validate_secret,
    "nfs": _without_options(storage.validate_nfs),
    "iscsi": _without_options(storage.validate_iscsi),
    "glusterfs": _without_options(storage.validate_glusterfs),
    "flocker": _without_options(storage.validate_flocker),
    "persistentVolumeClaim": _validate_persistent_claim,
    "rbd": _without_options(storage.validate_rbd),
    "cinder": _without_options(storage.validate_cinder),
    "cephfs": _without_options(storage.validate_cephfs),
    "quobyte": _without_options(storage.validate_quobyte),
    "downwardAPI": _validate_downward,
    "fc": _without_options(storage.validate_fibre_channel),
    "flexVolume": _without_options(storage.validate_flex),
    "configMap": _validate_config_map,
    "azureFile": _without_options(storage.validate_azure_file),
    "vsphereVolume": _without_options(storage.validate_vsphere),
    "photonPersistentDisk": _without_options(storage.validate_photon),
    "portworxVolume": _without_options(storage.validate_portworx),
    "azureDisk": _without_options(storage.validate_azure_disk),
    "storageos": _without_options(storage.validate_storage_os),
    "projected": validate_projected_volume,
    "scaleIO": _without_options(storage.validate_scale_io),
    "csi": _without_options(storage.validate_csi),
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
"""The sources in the order in which they are checked: the first is validated, all others are rejected."""

_TOLD_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Spellings in kube-apiserver's message about more than one source."""
