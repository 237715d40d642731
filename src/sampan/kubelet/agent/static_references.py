"""Pure check for API objects that a static pod refers to, which is not allowed as it may run without an API server."""

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
    """Return the kind of an API object that the pod refers to, or an empty string."""
    if pod.spec.serviceAccountName:
        return "serviceaccounts"
    kinds = {key.kind for key in references(pod)}
    for kind, name in ((Secret, "secrets"), (ConfigMap, "configmaps")):
        if kind in kinds:
            return name
    if pod.spec.resourceClaims:
        return "resourceclaims"
    return next((kind_name for volume in pod.spec.volumes if (kind_name := _of_volume(volume))), "")


def _of_volume(volume: Volume) -> str:
    for name, kind_name in _VOLUMES.items():
        if getattr(volume, name) is not None:
            return kind_name
    for source in volume.projected.sources or () if volume.projected is not None else ():
        for name, kind_name in _PROJECTED.items():
            if getattr(source, name) is not None:
                return kind_name
    return ""
