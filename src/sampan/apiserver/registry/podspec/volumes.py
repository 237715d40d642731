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
from sampan.apiserver.registry.podspec.claims import claim_template_faults
from sampan.apiserver.registry.podspec.containers import PULL_POLICIES
from sampan.apiserver.registry.podspec.file_paths import file_mode
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, given, one_of
from sampan.apiserver.registry.podspec.projected import file_faults, key_faults, projected_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency


def volume_faults(
    volumes: Sequence[Volume], pod_name: str, lenient: Leniency, at: str, good: dict[str, Volume]
) -> Faults:
    """Yield the errors of all volumes, and add valid volumes to `good`: only these can be mounted.

    `pod_name` is empty for a template: the names of claims of ephemeral volumes are not validated then.
    """
    claims = {f"{pod_name}-{volume.name}" for volume in volumes if pod_name and volume.ephemeral is not None}
    for index, volume in enumerate(volumes):
        path = f"{at}[{index}]"
        faults = list(_volume(volume, pod_name, lenient, path))
        if volume.name in good:
            faults.append(FieldError.duplicate(f"{path}.name", volume.name))
        if not faults:
            good[volume.name] = volume
        yield from faults
        claim = volume.persistentVolumeClaim
        if claim is not None and claim.claimName in claims:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            yield FieldError.invalid(f"{path}.persistentVolumeClaim.claimName", claim.claimName, text)


def _volume(volume: Volume, pod_name: str, lenient: Leniency, at: str) -> Faults:
    sources = [(name, source) for name in _SOURCES if (source := getattr(volume, name)) is not None]
    for index, (name, source) in enumerate(sources):
        if index > 0:
            yield FieldError.forbidden(f"{at}.{_TOLD_AS.get(name, name)}", "may not specify more than 1 volume type")
        else:
            yield from _SOURCES[name](source, lenient, f"{at}.{name}")
        if name == "iscsi":
            yield from storage.iscsi_name(volume, at)
        if name == "ephemeral" and index == 0 and pod_name and volume.name:
            yield from _claim_name(volume.name, f"{pod_name}-{volume.name}", f"{at}.name")
    if not sources:
        yield FieldError.required(at, "must specify a volume type")
    if not volume.name:
        yield FieldError.required(f"{at}.name")
    else:
        yield from dns_label(volume.name, f"{at}.name")


def _claim_name(volume: str, claim: str, at: str) -> Faults:
    for text in names.dns1123_subdomain(claim):
        yield FieldError.invalid(at, volume, f"PVC name {gotext.quote(claim)}: {text}")


def _empty_dir(source: Any, lenient: Leniency, at: str) -> Faults:
    if source.sizeLimit is not None and quantity.parse(source.sizeLimit).sign < 0:
        yield FieldError.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _secret(source: SecretVolumeSource, lenient: Leniency, at: str) -> Faults:
    yield from given(source.secretName, f"{at}.secretName")
    yield from file_mode(source.defaultMode, f"{at}.defaultMode")
    yield from key_faults(source.items, f"{at}.items")


def _config_map(source: ConfigMapVolumeSource, lenient: Leniency, at: str) -> Faults:
    yield from given(source.name, f"{at}.name")
    yield from file_mode(source.defaultMode, f"{at}.defaultMode")
    yield from key_faults(source.items, f"{at}.items")


def _downward(source: DownwardAPIVolumeSource, lenient: Leniency, at: str) -> Faults:
    yield from file_mode(source.defaultMode, f"{at}.defaultMode")
    for file in source.items:
        yield from file_faults(file, at)


def _claim(source: PersistentVolumeClaimVolumeSource, lenient: Leniency, at: str) -> Faults:
    yield from given(source.claimName, f"{at}.claimName")


def _ephemeral(source: Any, lenient: Leniency, at: str) -> Faults:
    if source.volumeClaimTemplate is None:
        yield FieldError.required(f"{at}.volumeClaimTemplate")
    else:
        yield from claim_template_faults(source.volumeClaimTemplate, f"{at}.volumeClaimTemplate")


def _image(source: ImageVolumeSource, lenient: Leniency, at: str) -> Faults:
    if lenient.is_pod:
        yield from given(source.reference, f"{at}.reference")
    yield from one_of(source.pullPolicy, PULL_POLICIES, f"{at}.pullPolicy")


def _plain(check: Callable[[Any, str], Faults]) -> Callable[[Any, Leniency, str], Faults]:
    return lambda source, _, at: check(source, at)


_SOURCES: Mapping[str, Callable[[Any, Leniency, str], Faults]] = {
    "emptyDir": _empty_dir,
    "hostPath": _plain(storage.host_path),
    "gitRepo": _plain(storage.git_repo),
    "gcePersistentDisk": _plain(storage.gce_disk),
    "awsElasticBlockStore": _plain(storage.aws_disk),
    "secret": _secret,
    "nfs": _plain(storage.nfs),
    "iscsi": _plain(storage.iscsi),
    "glusterfs": _plain(storage.glusterfs),
    "flocker": _plain(storage.flocker),
    "persistentVolumeClaim": _claim,
    "rbd": _plain(storage.rbd),
    "cinder": _plain(storage.cinder),
    "cephfs": _plain(storage.cephfs),
    "quobyte": _plain(storage.quobyte),
    "downwardAPI": _downward,
    "fc": _plain(storage.fibre_channel),
    "flexVolume": _plain(storage.flex),
    "configMap": _config_map,
    "azureFile": _plain(storage.azure_file),
    "vsphereVolume": _plain(storage.vsphere),
    "photonPersistentDisk": _plain(storage.photon),
    "portworxVolume": _plain(storage.portworx),
    "azureDisk": _plain(storage.azure_disk),
    "storageos": _plain(storage.storage_os),
    "projected": projected_faults,
    "scaleIO": _plain(storage.scale_io),
    "csi": _plain(storage.csi),
    "ephemeral": _ephemeral,
    "image": _image,
}
"""The sources in the order in which they are checked: the first is validated, all others are rejected."""

_TOLD_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Spellings in kube-apiserver's message about more than one source."""
