"""Configuration and collaborators that all volume plug-ins share."""

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
    """Root directory of the kubelet's data."""
    node_name: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Allocatable resources of the node."""
    patience_s: float = 10.0
    """How long a pod worker waits for volumes before it syncs the pod again; mounting continues meanwhile."""
    growth_period_s: float = 60.0
    """Interval at which claims in use are checked for expansion."""
    size_period_s: float = 10.0
    """Interval at which volumes with a size limit are measured."""


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
