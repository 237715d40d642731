"""The volume with a service account's token that admission gives to nearly every pod.

Its parts are made once and shared by all pods on their way to the store: nobody changes the inside of a volume there.
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
from sampan.apiserver.registry.podspec.volume_defaults import FILE_MODE

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
    """Whether it is that very source, which has no fault."""
    return source == _STANDARD
