"""Builders of claims, volumes and pods."""

import os
from typing import Any

from sampan.api.types.core_v1 import (
    Container,
    HostPathVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    Volume,
    VolumeResourceRequirements,
)
from sampan.api.types.meta_v1 import ObjectMeta

HOST_PATHS = f"/tmp/sampan-test-volumes-{os.getpid()}"
"""The parent of the host paths of volumes, which the controller may remove. No test creates it."""


def claim(name: str = "c", size: str = "1Gi", namespace: str = "default", **spec: Any) -> PersistentVolumeClaim:
    modes = spec.pop("accessModes", ["ReadWriteOnce"])
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PersistentVolumeClaimSpec(
            accessModes=modes, resources=VolumeResourceRequirements(requests={"storage": size}), **spec
        ),
    )


def volume(name: str = "v", size: str = "1Gi", **spec: Any) -> PersistentVolume:
    modes = spec.pop("accessModes", ["ReadWriteOnce"])
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=spec.pop("labels", {})),
        spec=PersistentVolumeSpec(
            accessModes=modes,
            capacity={"storage": size},
            hostPath=HostPathVolumeSource(path=f"{HOST_PATHS}/{name}"),
            **spec,
        ),
    )


def pod_using(claim: str, name: str = "p", node: str = "node", namespace: str = "default") -> Pod:
    source = PersistentVolumeClaimVolumeSource(claimName=claim)
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodSpec(
            nodeName=node,
            containers=[Container(name="c", image="i")],
            volumes=[Volume(name="data", persistentVolumeClaim=source)],
        ),
    )
