"""The pod resources API (`pkg/kubelet/apis/podresources`), with which monitoring agents on the node query the devices
of pods.

CPUs and memory are not reported, because containers do not get exclusive ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sampan.api.semantics.pods import sidecars_of
from sampan.api.types.core_v1 import Container, Pod
from sampan.host.clock import Clock
from sampan.kubelet.devices.allocations import NO_NODE
from sampan.kubelet.devices.dra.claim_info import ClaimInfo
from sampan.kubelet.devices.manager import DeviceManager
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.plugin_registry.socket_server import GrpcService, ServiceError, SocketServer

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema


def proto() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "pod_resources.proto")


class PodResources:
    def __init__(
        self,
        *,
        root: Path,
        devices: DeviceManager,
        claims: Callable[[Pod, Container], Sequence[ClaimInfo]],
        pods: Callable[[], Sequence[Pod]],
        clock: Clock,
    ) -> None:
        """`claims` returns the prepared resource claims of a container; `pods` the pods that have not terminated."""
        self._socket, self._clock = root / "pod-resources" / "kubelet.sock", clock
        self._devices, self._claims, self._pods = devices, claims, pods

    async def run(self) -> None:
        methods = {"List": self._list, "Get": self._get, "GetAllocatableResources": self._allocatable}
        service = GrpcService(schema=proto, name="PodResourcesLister", methods=methods)
        await SocketServer(path=self._socket, services=[service]).run(self._clock)

    async def _list(self, request: Message) -> Message:
        return proto().ListPodResourcesResponse(pod_resources=[self._build_pod_message(pod) for pod in self._pods()])

    async def _get(self, request: Message) -> Message:
        for pod in self._pods():
            if (pod.metadata.namespace, pod.metadata.name) == (request.pod_namespace, request.pod_name):
                return proto().GetPodResourcesResponse(pod_resources=self._build_pod_message(pod))
        raise ServiceError(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")

    async def _allocatable(self, request: Message) -> Message:
        messages = []
        for resource, devices in sorted(self._devices.devices().items()):
            for name, device in sorted(devices.items()):
                messages.append(_devices(resource, [name], device.nodes))
        return proto().AllocatableResourcesResponse(devices=messages)

    def _build_pod_message(self, pod: Pod) -> Message:
        sidecars = sidecars_of(pod.spec)
        return proto().PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[self._container(pod, container) for container in (*sidecars, *(pod.spec.containers or ()))],
        )

    def _container(self, pod: Pod, container: Container) -> Message:
        allocations = self._devices.list_allocations(pod, container.name)
        return proto().ContainerResources(
            name=container.name,
            devices=[
                message
                for allocation in allocations
                for message in _group_by_device(allocation.resource, allocation.nodes)
            ],
            dynamic_resources=[_claim(info) for info in self._claims(pod, container)],
        )


def _group_by_device(resource: str, nodes: Mapping[str, Iterable[str]]) -> list[Message]:
    near: dict[str, list[int]] = {}
    for node, devices in nodes.items():
        for device in devices:
            near.setdefault(device, []).append(int(node))
    return [_devices(resource, [device], numa_nodes) for device, numa_nodes in sorted(near.items())]


def _devices(resource: str, names: Sequence[str], nodes: Iterable[int]) -> Message:
    schema = proto()
    numa_nodes = [schema.NUMANode(ID=node) for node in nodes if node != NO_NODE]
    topology = {"topology": schema.TopologyInfo(nodes=numa_nodes)} if numa_nodes else {}
    return schema.ContainerDevices(resource_name=resource, device_ids=list(names), **topology)


def _claim(info: ClaimInfo) -> Message:
    schema = proto()
    resources = [
        schema.ClaimResource(
            cdi_devices=[schema.CDIDevice(name=device_id) for device_id in device.CDIDeviceIDs or ()],
            driver_name=driver,
            pool_name=device.PoolName,
            device_name=device.DeviceName,
            share_id=device.ShareID or "",
        )
        for driver, device in info.devices()
    ]
    return schema.DynamicResource(claim_name=info.ClaimName, claim_namespace=info.Namespace, claim_resources=resources)
