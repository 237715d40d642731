"""node-ipam-controller, which assigns each node its own pod CIDRs without overlap."""

import logging
from collections.abc import Hashable, Iterable, Sequence

from sampan.api.types.core_v1 import Node
from sampan.controllers.descriptor import ControllerConfig, ControllerContext
from sampan.controllers.nodes.cidr_sets import CidrRangeFull, CidrSets, InvalidCidr, Network, network_of
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import NORMAL, EventRecorder
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

_FULL_S = 10.0


class PodCidrAllocation:
    """The pod CIDRs of nodes: those in the specs of the nodes, and those that were assigned and may not be in the cache
    yet."""

    def __init__(self, ranges: Sequence[CidrSets]) -> None:
        self.ranges = ranges
        self._of: dict[str, tuple[str, tuple[Network, ...]]] = {}
        """UID and networks by node name."""

    def note(self, name: str, uid: str, cidrs: Sequence[str]) -> None:
        """Record that the node exists and has these pod CIDRs."""
        networks = tuple(network for cidr in cidrs if (network := _read(name, cidr)) is not None)
        if self._of.get(name) == (uid, networks):
            return
        # Occupy the new networks before the old ones are released, so that no part of them is assigned in between.
        for network in networks:
            self._apply_to_ranges("occupy", network)
        self.forget(name)
        self._of[name] = (uid, networks)

    def forget(self, name: str) -> None:
        _, networks = self._of.pop(name, ("", ()))
        for network in networks:
            self._apply_to_ranges("release", network)

    def allocate(self, name: str, uid: str) -> tuple[Network, ...]:
        """Return the networks for a node without pod CIDRs. Further calls return the same networks until the pod CIDRs
        of the node are recorded.

        Raise CidrRangeFull if the cluster CIDR of one family is exhausted.
        """
        held_by, owned_networks = self._of.get(name, ("", ()))
        if owned_networks and held_by == uid:
            return owned_networks
        networks: list[Network] = []
        try:
            for ranges in self.ranges:
                networks.append(ranges.take())  # noqa: PERF401 - the networks taken before CidrRangeFull must be known
        except CidrRangeFull:
            for network in networks:
                self._apply_to_ranges("release", network)
            raise
        self.forget(name)
        self._of[name] = (uid, tuple(networks))
        return tuple(networks)

    def names(self) -> Sequence[str]:
        return list(self._of)

    def _apply_to_ranges(self, operation: str, network: Network) -> None:
        for ranges in self.ranges:
            getattr(ranges, operation)(network)


def _read(name: str, cidr: str) -> Network | None:
    try:
        return network_of(cidr)
    except InvalidCidr:
        log.warning("node %s has an invalid pod CIDR: %s", name, cidr)
        return None


class NodeIpamController:
    name = "node-ipam-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, events: EventRecorder, allocation: PodCidrAllocation
    ) -> None:
        self._client, self._events, self._allocation = client.for_kind(Node), events, allocation
        self._nodes = informers.for_kind(Node).lister
        self._has_read = False
        """Whether the pod CIDRs of all existing nodes are recorded. No pod CIDR is assigned before that."""
        self.watches = (Watch(resource_of(Node), self._record_node_cidrs),)

    def _record_node_cidrs(self, node: Node) -> Iterable[Hashable]:
        """Record the pod CIDRs of an observed node before any are assigned; enqueue nodes that have none."""
        meta = node.metadata
        current = self._nodes.get(meta.name)
        if current is not None and current.metadata.uid == meta.uid and current.spec.podCIDRs:
            self._allocation.note(meta.name, meta.uid, current.spec.podCIDRs)
            return ()
        return (meta.name,)

    async def reconcile(self, key: str) -> float | None:
        self._read_all()
        node = self._nodes.get(key)
        if node is None:
            self._allocation.forget(key)
            return None
        if node.spec.podCIDRs or node.metadata.deletionTimestamp:
            return None
        try:
            cidrs = [str(network) for network in self._allocation.allocate(key, node.metadata.uid)]
        except CidrRangeFull:
            self._events.event(node, NORMAL, "CIDRNotAvailable", f"Node {key} status is now: CIDRNotAvailable")
            return _FULL_S
        await self._write(node, cidrs)
        return None

    def _read_all(self) -> None:
        if not self._has_read:
            for node in self._nodes:
                if node.spec.podCIDRs:
                    self._allocation.note(node.metadata.name, node.metadata.uid, node.spec.podCIDRs)
            self._has_read = True

    async def _write(self, node: Node, cidrs: Sequence[str]) -> None:
        """Write the pod CIDRs if the node is unchanged since it was read.

        On failure the assignment is kept until the node shows other pod CIDRs: a write whose response was lost may have
        succeeded.
        """
        meta = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resourceVersion}
        patch = {"metadata": meta, "spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}}
        try:
            await self._client.patch(node.metadata.name, patch, type=PatchType.MERGE)
        except errors.NotFound:
            return


def ranges_of(config: ControllerConfig) -> list[CidrSets]:
    """Return the cluster CIDRs without the service CIDRs; raise InvalidCidr if the flags contradict each other."""
    clusters = [network_of(text) for text in config.cluster_cidr]
    if not clusters:
        raise InvalidCidr("Must specify --cluster-cidr if --allocate-node-cidrs is set")
    if len(clusters) > 2:
        raise InvalidCidr(f"length of clusterCIDRs is:{len(clusters)} more than max allowed of 2")
    if len(clusters) == 2 and clusters[0].version == clusters[1].version:
        raise InvalidCidr("the two ranges of --cluster-cidr must be of different IP families")
    result = [CidrSets(network, _mask_size(network, config)) for network in clusters]
    for ranges in result:
        for text in config.service_cluster_ip_range:
            ranges.occupy(network_of(text))
    return result


def _mask_size(network: Network, config: ControllerConfig) -> int:
    """Return the prefix length of node CIDRs. --node-cidr-mask-size is for single-stack clusters only."""
    sizes = {4: config.node_cidr_mask_size_ipv4, 6: config.node_cidr_mask_size_ipv6}
    is_dual = len(config.cluster_cidr) == 2
    if config.node_cidr_mask_size:
        if is_dual:
            raise InvalidCidr("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
        if any(sizes.values()):
            raise InvalidCidr("--node-cidr-mask-size cannot be combined with --node-cidr-mask-size-ipv4 or -ipv6")
        return config.node_cidr_mask_size
    other = 10 - network.version
    if not is_dual and sizes[other]:
        flag = f"--node-cidr-mask-size-ipv{other}"
        raise InvalidCidr(f"usage of {flag} is not allowed for a single-stack IPv{network.version} cluster")
    return sizes[network.version] or (24 if network.version == 4 else 64)


def make(context: ControllerContext) -> NodeIpamController | None:
    if not context.config.allocate_node_cidrs:
        return None
    return context.build(NodeIpamController, allocation=PodCidrAllocation(ranges_of(context.config)))
