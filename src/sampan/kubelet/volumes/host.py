"""What all plug-ins share: the node they are on and those they ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sampan.kubelet.objects import PodObjects
from sampan.kubelet.volumes.layout import Layout
from sampan.kubelet.volumes.mounting import Mounter
from sampan.kubelet.volumes.tokens import Tokens
from sampan.kubelet.volumes.trust_bundles import TrustBundles
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig:
    root: Path
    """Where the kubelet keeps its data."""
    node_name: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Of the node."""
    patience_s: float = 10.0
    """How long a pod's worker waits for its volumes before it looks at the pod anew; they are worked on meanwhile."""
    growth_period_s: float = 60.0
    """How often claims in use are looked at: their volumes may have become larger."""
    size_period_s: float = 10.0
    """How often volumes with a limit are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    config: VolumeConfig
    layout: Layout
    mounter: Mounter
    client: Client
    informers: InformerFactory
    objects: PodObjects
    tokens: Tokens
    bundles: TrustBundles
    clock: Clock


__all__ = ["Host", "VolumeConfig"]
