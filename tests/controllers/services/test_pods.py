"""Which services are notified of a change of a pod."""

from collections.abc import Callable, Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.types.core_v1 import (
    Container,
    ContainerPort,
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
    Pod,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from sampan.controllers.services.pods import PodFeed, TargetPorts
from sampan.controllers.services.subsets import repack_subsets
from sampan.host.clock import VirtualClock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from tests.controllers.cluster import cluster
from tests.controllers.services.backends import pod, service
from tests.input_cost import is_quick

WEB, DB = NamespacedName("default", "web"), NamespacedName("default", "db")
A = "10.1.0.1"
BOTH = {"app": "web", "role": "db"}


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        (None, pod("a", A), {WEB}),
        (None, pod("a"), set()),
        (None, pod("a", A, labels={"app": "other"}), set()),
        (None, pod("a", A, labels=BOTH), {WEB, DB}),
        (pod("a", A), None, {WEB}),
        (pod("a"), None, set()),
        (pod("a"), pod("a", A), {WEB}),
        (pod("a", A), pod("a", A), set()),
        (pod("a", A), pod("a", A, ready=False), {WEB}),
        (pod("a", A), pod("a", A, is_deleted=True), {WEB}),
        (pod("a", A), pod("a", A, phase="Failed"), {WEB}),
        (pod("a", A), pod("a", A, labels=BOTH), {DB}),
        (pod("a", A, labels=BOTH), pod("a", A), {DB}),
        (pod("a", A, labels=BOTH), pod("a", A, ready=False), {WEB, DB}),
        (pod("a", A), pod("a", A, labels={"app": "web", "more": "x"}), set()),
    ],
)
async def test_keys_that_a_pod_change_notifies(old: Pod | None, new: Pod | None, keys: set[NamespacedName]) -> None:
    async with cluster() as c:
        informers = InformerFactory(client=c.client)
        feed = PodFeed(informers=informers, clock=VirtualClock())
        cache = informers.for_kind(Service)
        for stored in (service("web"), service("db", selector={"role": "db"})):
            cache._put(key_of(stored), stored)
        notified: list[Hashable] = []
        add: Callable[[Hashable], None] = notified.append
        feed._on_pod_changed(old, new, add)
        assert set(notified) == keys
        assert len(notified) == len(keys)


PORT_NAMES = st.sampled_from(["a", "b", "c"])
PROTOCOLS = st.sampled_from(["TCP", "UDP"])
SERVICE_PORTS = st.lists(
    st.builds(ServicePort, name=PORT_NAMES, targetPort=PORT_NAMES | st.integers(1, 9), protocol=PROTOCOLS), max_size=6
)
CONTAINER_PORTS = st.lists(
    st.builds(ContainerPort, name=PORT_NAMES, containerPort=st.integers(1, 99), protocol=PROTOCOLS), max_size=6
)


@given(SERVICE_PORTS, st.lists(CONTAINER_PORTS, min_size=1, max_size=4))
def test_target_ports_are_those_of_the_first_container_port_with_the_name(
    service_ports: list[ServicePort], ports_of_pods: list[list[ContainerPort]]
) -> None:
    targets = TargetPorts(Service(spec=ServiceSpec(ports=service_ports)), lambda port, number: (port.name, number))
    for ports in ports_of_pods:
        assert targets.find(pod_with_ports(ports)) == [
            (port.name, number) for port in service_ports if (number := number_by_scan(port, ports)) is not None
        ]


def number_by_scan(port: ServicePort, ports: list[ContainerPort]) -> int | None:
    target = port.targetPort
    same = (other.containerPort for other in ports if (other.name, other.protocol) == (target, port.protocol))
    return target if isinstance(target, int) else next(same, None)


def pod_with_ports(ports: list[ContainerPort]) -> Pod:
    return Pod(spec=PodSpec(containers=[Container(name="c", image="x", ports=ports)]))


def large_service_and_pods(*, distinct: bool) -> tuple[Service, list[Pod]]:
    """Return a service of 4,000 named ports and 15 pods with 2,000 ports of these names each."""
    ports = [ServicePort(name=f"p{number}", targetPort=f"p{number}", port=number + 1) for number in range(4_000)]
    pods = [
        pod_with_ports(
            [ContainerPort(name=f"p{number}", containerPort=number + 1 + shift * distinct) for number in range(2_000)]
        )
        for shift in range(15)
    ]
    return Service(spec=ServiceSpec(ports=ports)), pods


def test_cost_of_target_ports_is_not_a_product() -> None:
    service, pods = large_service_and_pods(distinct=True)

    def resolve() -> None:
        targets = TargetPorts(service, lambda port, number: number)
        assert sum(targets.find(pod) is not None for pod in pods) == limits.SERVICE_TARGET_PORTS // 4_000

    assert is_quick(resolve, 0.5)  # comparing all with all takes ten seconds


def test_pods_with_the_same_ports_share_one_list() -> None:
    service, pods = large_service_and_pods(distinct=False)
    targets = TargetPorts(service, lambda port, number: number)
    assert len({id(targets.find(pod)) for pod in pods}) == 1


def test_cost_of_subsets_with_common_addresses_is_not_a_product() -> None:
    addresses = [EndpointAddress(ip=f"10.0.{number // 250}.{number % 250}") for number in range(5_000)]
    ports = [EndpointPort(name=f"p{number}", port=number + 1) for number in range(5_000)]
    large = EndpointSubset(addresses=addresses, ports=ports)
    small = [EndpointSubset(addresses=[address], ports=[EndpointPort(port=9)]) for address in addresses]

    def repack() -> None:
        assert repack_subsets([large])[1] == 0
        assert repack_subsets([large, *small])[1] == 5_000 - limits.SERVICE_TARGET_PORTS // 5_001

    assert is_quick(repack, 1.0)  # each address with its own copy of the ports takes ten seconds
