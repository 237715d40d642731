"""NodePorts: rejects nodes on which a host port of the pod is in use."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.scheduler.cache.arrays import Codes, Rows, count_of
from sampan.scheduler.cache.node_attributes import WILDCARD_IP, PodHostPort, host_ports
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    name = "NodePorts"
    scope = PluginScope.PODS

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: CycleState) -> Status | None:
        return None if cycle.signature.parse_once("ports", host_ports) else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        rejected = cycle.reject(self.name, REASON)
        for port in cycle.signature.parse_once("ports", host_ports):
            codes[cycle.table.ports.is_port_used(port, rows)] = rejected
        return codes

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), _frees_a_port),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
        ]


def _frees_a_port(info: PodInfo, old: Any, new: Any) -> bool:
    ports = info.signature.parse_once("ports", host_ports)
    return any(_conflict(mine, other) for mine in ports for other in host_ports(old.spec))


def _conflict(port: PodHostPort, other: PodHostPort) -> bool:
    same_ip = WILDCARD_IP in (port.ip, other.ip) or port.ip == other.ip
    return same_ip and (port.protocol, port.port) == (other.protocol, other.port)
