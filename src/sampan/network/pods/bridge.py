"""The pod network of a node whose runtime creates its own sandboxes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

import msgspec

from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace, is_network
from sampan.network.bridge_marks import BridgeMark
from sampan.network.pods import rules
from sampan.network.pods.addresses import AddressPool, Network, NoAddressLeft, parse_cidrs
from sampan.network.pods.config import BridgeConfig, link_for, network_failure, not_ready_failure
from sampan.network.pods.frame_table import SourceAddress, source_addresses
from sampan.network.pods.host_network import HostNetwork
from sampan.network.pods.nft import NftChange
from sampan.network.pods.records import PodNetworkRecord, PodNetworkRecords, host_port_mappings
from sampan.network.pods.rules import SetElement, port_conflict, port_elements, port_errors
from sampan.runtimes.config import PortMapping
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.network import UNLIMITED, NoIsolation, PodBandwidth, PodIsolation

log = logging.getLogger(__name__)

T = TypeVar("T")

CHECK_S = 60.0
_PROCESS_NAMESPACE = NetworkNamespace()


class BridgeNetwork:
    """A `PodNetwork` that connects pods with a Linux bridge.

    Entering the context takes over the network of a previous run and removes what deleted pods left behind. `directory`
    is the node's own directory. A single thread applies all changes in the network namespace of the node, in the order
    of the calls. `isolation` puts network policies into effect before a pod is connected.
    """

    def __init__(
        self,
        *,
        directory: Path,
        config: BridgeConfig,
        clock: Clock,
        namespace: NetworkNamespace = _PROCESS_NAMESPACE,
        isolation: PodIsolation | None = None,
    ) -> None:
        self._config, self._clock = config, clock
        self._isolation = isolation or NoIsolation()
        self._records = PodNetworkRecords(directory)
        self._pods: dict[str, PodNetworkRecord] = {}
        """Records are replaced, never changed in place, as the thread reads them too."""
        self._pool = AddressPool(())
        self._ranges: tuple[Network, ...] = ()
        self._earlier: tuple[Network, ...] = ()
        """Former pod CIDRs from which pods may still have addresses."""
        self._machine = HostNetwork(
            config=config,
            owner=directory,
            networks=self._networks,
            elements=self._elements,
            sources=self._sources,
        )
        self._thread = namespace.executor("pod-network")
        self._mark = BridgeMark(config.bridge, namespace)

    async def __aenter__(self) -> BridgeNetwork:
        self._pods = {record.uid: record for record in self._records.load()}
        addresses = [address for record in self._pods.values() for address in record.addresses]
        self._pool = AddressPool(addresses)
        self._earlier = tuple(dict.fromkeys(ip_network(cidr, strict=False) for cidr in addresses))
        await asyncio.to_thread(self._mark.set)
        await self._run_in_thread(self._take_over)
        for uid in self._pods:
            self._isolation.adopt(uid, self.addresses(uid))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Release resources of this process; pods stay connected."""
        await self._run_in_thread(self._machine.close)
        self._thread.shutdown()
        self._mark.clear()

    async def run(self) -> None:
        """Restore the network periodically, as other programs may remove it: a firewall reload may flush all tables."""
        while True:
            await self._clock.sleep(CHECK_S)
            try:
                await self._run_in_thread(self._machine.check)
            except RuntimeFailure as error:
                log.warning("cannot repair the pod network: %s", error)

    async def remove_all(self) -> None:
        """Remove the whole network of the node, for a node that is being removed."""
        await self._run_in_thread(self._machine.remove_all)
        for uid in list(self._pods):
            self._forget(uid)
        await self._isolation.remove_all()

    # -- PodNetwork interface ----------------------------------------------------------------------------------------

    def use_pod_cidrs(self, cidrs: Sequence[str]) -> None:
        try:
            ranges = parse_cidrs(cidrs)
        except ValueError as error:
            raise network_failure(f"podCIDRs: {error}") from None
        if ranges != self._ranges:
            self._earlier = tuple(dict.fromkeys([*self._earlier, *self._ranges]))
            self._ranges = ranges

    async def attach(
        self, uid: str, namespace: Path, ports: Sequence[PortMapping], bandwidth: PodBandwidth = UNLIMITED
    ) -> Sequence[str]:
        before = self._pods.get(uid)
        record = self._decide(before, uid, namespace, ports, bandwidth)
        if record != before:
            self._records.save(record)
            self._pods[uid] = record
        try:
            await self._isolation.isolate(uid, self.addresses(uid))
            await self._run_in_thread(self._machine.connect, record, self._port_change(before, record))
        except RuntimeFailure:
            await self._undo(before, record)
            raise
        return self.addresses(uid)

    async def _undo(self, before: PodNetworkRecord | None, record: PodNetworkRecord) -> None:
        """Undo a failed attach. A pod that was attached before keeps its previous state."""
        if before is None:
            await self.detach(record.uid)
        elif self._pods.get(record.uid) is record:
            self._records.save(before)
            self._pods[record.uid] = before
            self._port_change(record, before)  # the restored host ports are committed with the next transaction

    async def detach(self, uid: str) -> None:
        before = self._pods.get(uid)
        if before is None:
            return
        detached = self._pods[uid] = msgspec.structs.replace(before, ports=())
        self._machine.schedule_deletion(before.link)
        await self._run_in_thread(self._machine.disconnect, before, self._port_change(before, detached))
        if self._pods.get(uid) is detached:  # false if the pod was attached again meanwhile
            await self._isolation.release(uid)
            self._forget(uid)

    def list_pod_uids(self) -> Sequence[str]:
        return list(self._pods)

    def addresses(self, uid: str) -> Sequence[str]:
        record = self._pods.get(uid)
        return [address.partition("/")[0] for address in record.addresses] if record is not None else ()

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _decide(
        self,
        before: PodNetworkRecord | None,
        uid: str,
        namespace: Path,
        ports: Sequence[PortMapping],
        bandwidth: PodBandwidth,
    ) -> PodNetworkRecord:
        requested = host_port_mappings(ports)
        for error in port_errors(requested):
            raise network_failure(error)
        record = PodNetworkRecord(
            uid=uid,
            link=before.link if before else link_for(self._config.bridge, uid, {r.link for r in self._pods.values()}),
            namespace=str(namespace),
            addresses=before.addresses if before else (),
            ports=requested,
            ingress_bits_per_s=bandwidth.ingress_bits_per_s,
            egress_bits_per_s=bandwidth.egress_bits_per_s,
        )
        record = record if before else msgspec.structs.replace(record, addresses=tuple(self._take_addresses()))
        if requested and (conflict := port_conflict(record, self._pods.values())):
            if before is None:
                self._pool.release(record.addresses)
            raise network_failure(conflict)
        return record

    def _take_addresses(self) -> list[str]:
        if not self._ranges:
            raise not_ready_failure("the pod network is not ready: the node has no podCIDR yet")
        try:
            return self._pool.allocate(self._ranges)
        except NoAddressLeft as error:
            raise network_failure(str(error)) from None

    def _port_change(self, before: PodNetworkRecord | None, after: PodNetworkRecord) -> NftChange | None:
        old, new = port_elements(before) if before else frozenset(), port_elements(after)
        if not old | new:
            return None
        text = rules.render_deletions(self._config.bridge, sorted(old - new))
        return self._machine.add(text + rules.render_additions(self._config.bridge, sorted(new)))

    def _networks(self) -> list[Network]:
        return list(dict.fromkeys([*self._ranges, *self._earlier]))

    def _elements(self) -> Iterator[SetElement]:
        for record in list(self._pods.values()):
            yield from port_elements(record)

    def _sources(self) -> Iterator[SourceAddress]:
        for record in list(self._pods.values()):
            yield from source_addresses(record)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        """Take over the network of a previous run. Runs in the thread; without leftovers not even netlink is loaded."""
        for record in list(self._pods.values()):
            if not is_network(Path(record.namespace)):
                self._forget(record.uid)
        if not self._machine.has_leftovers():
            return
        try:
            self._machine.take_over([record.link for record in self._pods.values()])
        except RuntimeFailure as error:  # The next pod tries again and reports the error.
            log.warning("cannot restore the pod network of the previous run: %s", error)

    def _forget(self, uid: str) -> None:
        record = self._pods.pop(uid)
        self._records.remove(uid)
        self._pool.release(record.addresses)

    async def _run_in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)
