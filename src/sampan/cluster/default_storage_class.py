"""The default storage class of a new cluster, for claims that name no storage class."""

from __future__ import annotations

from contextlib import suppress

from sampan.api.types.core_v1 import Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.volumes import DEFAULT_CLASS, LOCAL_PATH

NAME = "standard"
_CREATED = "sampan.dev/default-storage-class"
_NAMESPACE = "kube-system"


async def ensure_default_storage_class(client: Client) -> None:
    """Create the default storage class once in the life of a cluster, so that an administrator may delete or change
    it."""
    namespace = await client.for_kind(Namespace).get(_NAMESPACE)
    if _CREATED in namespace.metadata.annotations:
        return
    with suppress(errors.AlreadyExists):
        await client.for_kind(StorageClass).create(_build_storage_class())
    await client.for_kind(Namespace).patch(_NAMESPACE, {"metadata": {"annotations": {_CREATED: NAME}}})


def _build_storage_class() -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=NAME, annotations={DEFAULT_CLASS: "true"}),
        provisioner=LOCAL_PATH,
        reclaimPolicy="Delete",
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
