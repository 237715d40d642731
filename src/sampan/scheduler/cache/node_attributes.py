"""Attributes of nodes other than resources, labels and taints: images, host ports and PersistentVolumeClaims in use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from sampan.api.semantics.pods import long_running_containers
from sampan.api.types.core_v1 import ContainerImage, PodSpec, Volume
from sampan.machinery.object_key import NamespacedName
from sampan.machinery.volumes import claim_name_of
from sampan.scheduler.cache.arrays import Flags, Ints, Rows, count_of, numbers_of
from sampan.scheduler.cache.pod_info import PodInfo

WILDCARD_IP = "0.0.0.0"


class NodeImages:
    """Which nodes have which images, and the size of each image there."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[int, int]] = {}
        self._of_row: dict[int, list[str]] = {}

    def put(self, row: int, images: Sequence[ContainerImage]) -> None:
        for name in self._of_row.pop(row, ()):
            rows = self._nodes[name]
            rows.pop(row, None)
            if not rows:
                del self._nodes[name]
        sizes = {name: image.sizeBytes for image in images for name in image.names or ()}
        if sizes:
            self._of_row[row] = list(sizes)
            for name, size in sizes.items():
                self._nodes.setdefault(name, {})[row] = size

    def nodes_with(self, name: str) -> dict[int, int]:
        """Return the rows that have the image, with its size there."""
        return self._nodes.get(name, {})


class PodHostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


def host_ports(spec: PodSpec) -> tuple[PodHostPort, ...]:
    """Return the host ports of the pod's containers and restartable init containers."""
    containers = long_running_containers(spec)
    return tuple(
        PodHostPort(port.hostIP or WILDCARD_IP, port.protocol or "TCP", port.hostPort)
        for container in containers
        for port in container.ports
        if port.hostPort > 0
    )


class UsedHostPorts:
    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        """How many pods of each row use the port, by protocol and port, then by address."""

    def add(self, row: int, port: PodHostPort, by: int) -> None:
        rows = self._rows.setdefault((port.protocol, port.port), {}).setdefault(port.ip, {})
        count = rows.get(row, 0) + by
        if count:
            rows[row] = count
        else:
            rows.pop(row, None)

    def is_port_used(self, port: PodHostPort, rows: Rows) -> Flags:
        """Return for each row whether the port is in use."""
        by_ip = self._rows.get((port.protocol, port.port), {})
        busy: set[int] = set()
        for ip, used_rows in by_ip.items():
            if WILDCARD_IP in (port.ip, ip) or ip == port.ip:
                busy.update(used_rows)
        if not busy:
            return np.zeros(count_of(rows), dtype=np.bool_)
        return np.isin(numbers_of(rows), list(busy))


def to_dense(values: dict[int, int], size: int) -> Ints:
    """Return the sparse values as a dense array."""
    dense: Ints = np.zeros(size, dtype=np.int64)
    if values:
        dense[list(values)] = list(values.values())
    return dense


def volumes_with_claims(spec: PodSpec) -> Sequence[Volume]:
    return tuple(
        volume for volume in spec.volumes if volume.persistentVolumeClaim is not None or volume.ephemeral is not None
    )


class UsedVolumeClaims:
    def __init__(self) -> None:
        self._rows: dict[NamespacedName, dict[int, int]] = {}
        """How many pods of each row use a claim."""

    def add(self, info: PodInfo, row: int, by: int) -> None:
        for volume in info.signature.parse_once("claiming volumes", volumes_with_claims):
            key = NamespacedName(info.namespace, claim_name_of(info.pod, volume))
            rows = self._rows.setdefault(key, {})
            count = rows.get(row, 0) + by
            if count:
                rows[row] = count
            else:
                rows.pop(row, None)
                if not rows:
                    del self._rows[key]

    def rows(self, claim: NamespacedName) -> Collection[int]:
        """Return the rows with pods that use the claim."""
        return self._rows.get(claim, {}).keys()
