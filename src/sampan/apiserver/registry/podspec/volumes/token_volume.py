"""The projected volume with a service account token that admission adds to most pods.

Its parts are shared by all pods until they are stored, so they must not be modified.
"""

from typing import Final

from sampan.api.types.core_v1 import (
    ConfigMapProjection,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    ProjectedVolumeSource,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from sampan.apiserver.registry.podspec.volumes.defaults import FILE_MODE

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFE_S = 3607
_NAMESPACE = ObjectFieldSelector(apiVersion="v1", fieldPath="metadata.namespace")
_SOURCES = (
    VolumeProjection(serviceAccountToken=ServiceAccountTokenProjection(expirationSeconds=_LIFE_S, path="token")),
    VolumeProjection(
        configMap=ConfigMapProjection(name="kube-root-ca.crt", items=[KeyToPath(key="ca.crt", path="ca.crt")])
    ),
    VolumeProjection(
        downwardAPI=DownwardAPIProjection(items=[DownwardAPIVolumeFile(path="namespace", fieldRef=_NAMESPACE)])
    ),
)


def token_source() -> ProjectedVolumeSource:
    return ProjectedVolumeSource(defaultMode=FILE_MODE, sources=[*_SOURCES])


_STANDARD = token_source()


def is_token_source(source: ProjectedVolumeSource) -> bool:
    """Whether the source is that of the standard token volume, which needs no validation."""
    return source == _STANDARD
