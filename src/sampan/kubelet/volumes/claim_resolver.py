"""Resolves the persistent volume of a pod's claim."""

from __future__ import annotations

from sampan.api.semantics.node_selectors import matches_node_selector
from sampan.api.types.core_v1 import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
)
from sampan.kubelet.volumes.contract import BLOCK, ClaimError, VolumeOperationError, VolumeSpec
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed

_PROTECTED = "kubernetes.io/pvc-protection"
_FILES = "Filesystem"


class ClaimResolver:
    def __init__(self, *, client: Client) -> None:
        self._claims, self._volumes = client.for_kind(PersistentVolumeClaim), client.for_kind(PersistentVolume)

    async def spec(self, pod: Pod, volume: Volume, *, mounts: set[str], devices: set[str]) -> VolumeSpec:
        """Return the description of the volume for plugins. `mounts` and `devices` are the names of volumes that
        containers of the pod mount or use as block devices. Raise ClaimError if the claim cannot be used.
        """
        source = find_claim_source(pod, volume)
        if source is None:
            return VolumeSpec(pod=pod, volume=volume)
        try:
            claim = await self._claim(pod.metadata.namespace, source.claimName)
            if volume.ephemeral is not None:
                check_owner(pod, claim)
            persistent_volume = await self._volume(claim)
        except ClaimError as error:
            claim_name = f"{pod.metadata.namespace}/{source.claimName}"
            raise ClaimError(f"error processing PVC {claim_name}: {error.text}") from None
        mode = persistent_volume.spec.volumeMode or _FILES
        check_mode(volume.name, mode, mounts=mounts, devices=devices)
        is_read_only = source.readOnly or (
            persistent_volume.spec.csi is not None and persistent_volume.spec.csi.readOnly
        )
        return VolumeSpec(
            pod=pod,
            volume=volume,
            persistent=persistent_volume,
            claim=claim,
            is_read_only=is_read_only,
            is_block=mode == BLOCK,
        )

    async def _claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        try:
            claim = await self._claims.get(name, namespace)
        except (errors.ApiError, ConnectionFailed) as error:
            raise ClaimError(f"failed to fetch PVC from API server: {error}") from error
        if claim.metadata.deletionTimestamp is not None and _PROTECTED not in claim.metadata.finalizers:
            raise ClaimError("PVC is being deleted")
        if claim.status.phase != "Bound":
            raise ClaimError("PVC is not bound")
        if not claim.spec.volumeName:
            raise ClaimError("PVC has empty pvc.Spec.VolumeName")
        return claim

    async def _volume(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        name = claim.spec.volumeName
        try:
            volume = await self._volumes.get(name)
        except (errors.ApiError, ConnectionFailed) as error:
            raise ClaimError(f"failed to fetch PV {name} from API server: {error}") from error
        ref, uid = volume.spec.claimRef, claim.metadata.uid
        if ref is None:
            message = "it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
            raise ClaimError(f"found PV object {name} but {message}")
        if ref.uid != uid:
            message = f"its pv.Spec.ClaimRef.UID {ref.uid} does not point to claim.UID {uid}"
            raise ClaimError(f"found PV object {name} but {message}")
        return volume


def find_claim_source(pod: Pod, volume: Volume) -> PersistentVolumeClaimVolumeSource | None:
    """Return the claim source of the volume, or None if it uses no claim. A generic ephemeral volume uses the claim
    that was created for it.
    """
    if volume.ephemeral is not None and volume.persistentVolumeClaim is None:
        return PersistentVolumeClaimVolumeSource(claimName=f"{pod.metadata.name}-{volume.name}")
    return volume.persistentVolumeClaim


def check_owner(pod: Pod, claim: PersistentVolumeClaim) -> None:
    meta = claim.metadata
    if meta.namespace != pod.metadata.namespace or not any(
        owner.controller and owner.uid == pod.metadata.uid for owner in meta.ownerReferences
    ):
        mismatch = f"{meta.namespace}/{meta.name} was not created for pod {pod.metadata.namespace}/{pod.metadata.name}"
        raise ClaimError(f"PVC {mismatch} (pod is not owner)")


def check_mode(name: str, mode: str, *, mounts: set[str], devices: set[str]) -> None:
    if name in mounts and mode != _FILES:
        raise ClaimError(f"volume {name} has volumeMode {mode}, but is specified in volumeMounts")
    if name in devices and mode != BLOCK:
        raise ClaimError(f"volume {name} has volumeMode {mode}, but is specified in volumeDevices")


def check_node(volume: PersistentVolume, node: Node | None) -> None:
    """Raise VolumeOperationError if the volume's node affinity does not match this node."""
    affinity = volume.spec.nodeAffinity.required if volume.spec.nodeAffinity is not None else None
    if affinity is None or node is None:
        return
    if not matches_node_selector(affinity, node):
        raise VolumeOperationError("no matching NodeSelectorTerms", step="MountVolume.NodeAffinity check failed")
