"""NodePorts: rejects nodes on which a host port of the pod is in use."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.scheduler.arrays import Codes, Rows, count_of
from sampan.scheduler.framework.contract import (
    SKIP,
    Action,
    ClusterEvent,
    Cycle,
    Events,
    Handle,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.node_extras import WILDCARD_IP, HostPort, host_ports
from sampan.scheduler.pod_info import PodInfo

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    name = "NodePorts"
    scope = Scope.PODS

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.needs.parsed("ports", host_ports) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        refused = cycle.refuse(self.name, REASON)
        for port in cycle.needs.parsed("ports", host_ports):
            codes[cycle.table.ports.taken(port, rows)] = refused
        return codes

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _frees_a_port),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
        ]


def _frees_a_port(info: PodInfo, old: Any, new: Any) -> bool:
    ports = info.needs.parsed("ports", host_ports)
    return any(_clash(mine, other) for mine in ports for other in host_ports(old.spec))


def _clash(one: HostPort, other: HostPort) -> bool:
    same_ip = WILDCARD_IP in (one.ip, other.ip) or one.ip == other.ip
    return same_ip and (one.protocol, one.port) == (other.protocol, other.port)
