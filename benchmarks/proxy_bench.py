"""kube-proxy in nftables mode: the first sync, one change, memory, beside a rewrite of the whole table by nft."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import Row
from benchmarks.processes import own_cpu_s, resident_mb
from sampan.api.types.core_v1 import Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.host.linux.network_namespace import run_in_network
from sampan.network.nft import run_nft
from sampan.network.pods import unsupported_reason
from sampan.network.proxy.nftables.compiler import ServiceCompiler
from sampan.network.proxy.nftables.families import IPV4_FAMILY
from sampan.network.proxy.nftables.operations import Operation, operation_text
from sampan.network.proxy.nftables.proxy_table import ProxyTable, RulesetGeneration
from sampan.network.proxy.nftables.table_state import TableState
from sampan.network.proxy.proxy_config import ProxyConfig, node_facts
from sampan.network.proxy.services import IPV4
from sampan.network.proxy.tracker import ServiceTracker
from tests.network.pods.lab import Lab
from tests.network.proxy.objects import NODE, endpoint, endpoint_slice, service
from tests.network.proxy.recorder import static_operations

SIZES = ((1_000, 5), (10_000, 10))
CHANGES = 15
CONFIG = ProxyConfig(cluster_cidrs=["10.128.0.0/9"])
FACTS = node_facts(CONFIG, IPV4, node_ips=["192.0.2.1"], service_cidrs=["10.96.0.0/12"])
COMPILER = ServiceCompiler(IPV4_FAMILY, CONFIG, FACTS)


def rows() -> Iterator[Row]:
    if unsupported_reason():
        return
    for services, endpoints in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            lab = Lab(Path(directory))
            try:
                yield from run_in_network(lab.node, lambda: list(_rows(services, endpoints)))  # noqa: B023
                yield from run_in_network(lab.outside, lambda: list(_rewrite_rows(services, endpoints)))  # noqa: B023
            finally:
                lab.close()


def _rows(services: int, endpoints: int) -> Iterator[Row]:
    name = f"{services:,} services of {endpoints} endpoints"
    objects = [_objects(number, endpoints) for number in range(services)]
    gc.collect()
    memory_mb = resident_mb()
    tracker = ServiceTracker(node_name=NODE, families=[IPV4])
    table = ProxyTable(compiler=COMPILER, generation=RulesetGeneration(), monotonic=time.monotonic)

    def first_sync() -> None:
        for item, slice in objects:
            tracker.on_slice(None, slice)
            tracker.on_service(None, item)
        tracker.take_changes()
        assert table.rebuild(COMPILER, tracker.services) == {}

    cpu_ms, wall_ms = _timed(first_sync)
    gc.collect()
    is_large = services > 1_000
    yield Row(f"first sync, {name}", cpu_ms / 1000, "s of CPU", goal=15 if is_large else 0.6)
    yield Row(f"first sync, {name}, by the clock", wall_ms / 1000, "s")
    yield Row(f"memory, {name}", resident_mb() - memory_mb, "MB", note="beside the objects of the informers")
    times = [_timed(lambda: _change(tracker, table, number, endpoints)) for number in range(CHANGES)]  # noqa: B023
    cpu = statistics.median(cpu for cpu, _ in times)
    yield Row(f"one change, {name}", cpu, "ms of CPU", goal=30, note="endpoint replaced, with the kernel's work")
    yield Row(f"one change, {name}, by the clock", statistics.median(wall for _, wall in times), "ms")
    yield Row(f"audit, {name}", _timed(lambda: _audit(table))[0], "ms of CPU", note="once an hour")
    table.close()


def _change(tracker: ServiceTracker, table: ProxyTable, number: int, endpoints: int) -> None:
    tracker.on_slice(*_replaced_endpoint(number * 7, endpoints))
    changes = {change.service: change.current for change in tracker.take_changes()}
    assert len(changes) == 1
    assert table.apply(changes) == {}


def _replaced_endpoint(number: int, endpoints: int) -> tuple[EndpointSlice, EndpointSlice]:
    """Return the slice of a service, before and after one of its endpoints is replaced."""
    item, old = _objects(number, endpoints)
    return old, endpoint_slice(item.metadata.name, endpoint("10.250.0.1"), *(old.endpoints or ())[1:])


def _audit(table: ProxyTable) -> None:
    assert table.audit() == []


def _rewrite_rows(services: int, endpoints: int) -> Iterator[Row]:
    """The whole table as text for nft in one transaction, for comparison."""
    tracker = ServiceTracker(node_name=NODE, families=[IPV4])
    for number in range(services):
        item, slice = _objects(number, endpoints)
        tracker.on_slice(None, slice)
        tracker.on_service(None, item)
    tracker.take_changes()
    state = TableState(COMPILER)
    update = state.update(tracker.services)
    state.accept(update)
    name = f"{services:,} services of {endpoints} endpoints"
    whole = _text([*static_operations(COMPILER), *(operation for _, operation in update.operations)])
    yield Row(f"full rewrite by nft, {name}", _run_ms(whole) / 1000, "s of CPU", note="for comparison")
    tracker.on_slice(*_replaced_endpoint(1, endpoints))
    update = state.update({change.service: change.current for change in tracker.take_changes()})
    change = _text([operation for _, operation in update.operations])
    yield Row(f"one change by nft, {name}", _run_ms(change), "ms of CPU", note="for comparison")


def _text(operations: list[Operation]) -> str:
    return "".join(f"{operation_text(operation, IPV4_FAMILY)}\n" for operation in operations)


def _run_ms(text: str) -> float:
    return _timed(lambda: run_nft("-f", "-", text=text))[0]


def _objects(number: int, endpoints: int) -> tuple[Service, EndpointSlice]:
    name = f"service-{number}"
    addresses = (number * endpoints + index for index in range(endpoints))
    slice = endpoint_slice(name, *(endpoint(_address(10 << 24 | 128 << 16, address)) for address in addresses))
    return service(name, ip=_address(10 << 24 | 96 << 16, number)), slice


def _address(base: int, number: int) -> str:
    value = base + number + 1
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds of CPU time and of elapsed time."""
    cpu_s, start = own_cpu_s(with_children=True), time.perf_counter()
    call()
    return (own_cpu_s(with_children=True) - cpu_s) * 1000, (time.perf_counter() - start) * 1000
