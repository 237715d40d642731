"""Attributes of nodes other than resource amounts: taints, images and host ports in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sampan.api.types.core_v1 import ContainerImage, PodSpec, Taint
from sampan.scheduler.arrays import Codes, Flags, Ints, Rows, count_of, grown, numbers_of

TaintKey = tuple[str, str, str]
WILDCARD_IP = "0.0.0.0"


class TaintSets:
    """The taints of each node as the number of its set of taints; a cluster usually has few distinct sets."""

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.zeros(size, dtype=np.int32)
        self.sets: list[tuple[TaintKey, ...]] = [()]
        self._numbers: dict[tuple[TaintKey, ...], int] = {(): 0}

    def put(self, row: int, taints: Iterable[Taint]) -> None:
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.sets)
            self.sets.append(key)
        self.codes[row] = number

    def grow(self, size: int) -> None:
        self.codes = grown(self.codes, size)


class Images:
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


class HostPort(NamedTuple):
    ip: str
    protocol: str
    port: int


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of the pod's containers and restartable init containers."""
    containers = [*(spec.containers or ()), *(c for c in spec.initContainers if c.restartPolicy == "Always")]
    return tuple(
        HostPort(port.hostIP or WILDCARD_IP, port.protocol or "TCP", port.hostPort)
        for container in containers
        for port in container.ports
        if port.hostPort > 0
    )


class UsedPorts:
    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        """How many pods of each row use the port, by protocol and port, then by address."""

    def add(self, row: int, port: HostPort, by: int) -> None:
        rows = self._rows.setdefault((port.protocol, port.port), {}).setdefault(port.ip, {})
        count = rows.get(row, 0) + by
        if count:
            rows[row] = count
        else:
            rows.pop(row, None)

    def taken(self, port: HostPort, rows: Rows) -> Flags:
        """Return for each row whether the port is in use."""
        by_ip = self._rows.get((port.protocol, port.port), {})
        busy: set[int] = set()
        for ip, used_rows in by_ip.items():
            if WILDCARD_IP in (port.ip, ip) or ip == port.ip:
                busy.update(used_rows)
        if not busy:
            return np.zeros(count_of(rows), dtype=np.bool_)
        return np.isin(numbers_of(rows), list(busy))


def scattered(values: dict[int, int], size: int) -> Ints:
    """Return the sparse values as a dense array."""
    dense: Ints = np.zeros(size, dtype=np.int64)
    if values:
        dense[list(values)] = list(values.values())
    return dense
