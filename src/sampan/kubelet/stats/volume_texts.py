"""Exports the usage of persistent volume claims as metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sampan.kubelet.stats.collector import NodeFigures
from sampan.machinery.metrics import Metrics

_FIELDS = (
    ("capacity_bytes", "Capacity in bytes of the volume", "capacity_bytes"),
    ("available_bytes", "Number of available bytes in the volume", "available_bytes"),
    ("used_bytes", "Number of used bytes in the volume", "used_bytes"),
    ("inodes", "Maximum number of inodes in the volume", "inodes"),
    ("inodes_free", "Number of free inodes in the volume", "free_inodes"),
    ("inodes_used", "Number of used inodes in the volume", "used_inodes"),
)


def export_volumes(metrics: Metrics, figures: Callable[[], NodeFigures | None]) -> None:
    """Register the metrics. `figures` returns the latest usage. A claim that several pods use is reported once."""
    for name, help, field in _FIELDS:
        metrics.function(
            f"kubelet_volume_stats_{name}",
            help,
            partial(_values, figures, field),
            ("namespace", "persistentvolumeclaim"),
        )


def _values(figures: Callable[[], NodeFigures | None], field: str) -> list[tuple[tuple[str, ...], float]]:
    latest, values = figures(), dict[tuple[str, ...], float]()
    for pod in latest.pods if latest is not None else ():
        for volume in pod.volumes:
            if volume.claim:
                values.setdefault((pod.pod.metadata.namespace, volume.claim), getattr(volume, field))
    return list(values.items())
