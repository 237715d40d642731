"""What a pod of a node's own may not refer to: it may have to run while there is no API server. Pure."""

from __future__ import annotations

from sampan.api.types.core_v1 import ConfigMap, Pod, Secret, Volume
from sampan.kubelet.objects import references

_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def referred(pod: Pod) -> str:
    """A kind of objects of the API server that the pod needs; empty: none."""
    if pod.spec.serviceAccountName:
        return "serviceaccounts"
    kinds = {key.kind for key in references(pod)}
    for kind, name in ((Secret, "secrets"), (ConfigMap, "configmaps")):
        if kind in kinds:
            return name
    if pod.spec.resourceClaims:
        return "resourceclaims"
    return next((found for volume in pod.spec.volumes if (found := _of_volume(volume))), "")


def _of_volume(volume: Volume) -> str:
    for name, told in _VOLUMES.items():
        if getattr(volume, name) is not None:
            return told
    for source in volume.projected.sources or () if volume.projected is not None else ():
        for name, told in _PROJECTED.items():
            if getattr(source, name) is not None:
                return told
    return ""


__all__ = ["referred"]
