"""Reads the objects that a pod's configuration depends on, and builds the sandbox and container configurations for the
runtime.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from sampan.api.semantics.pods import as_container, init_and_main_containers
from sampan.api.types.core_v1 import Container, EphemeralContainer, FileKeySelector, Pod, Service
from sampan.kubelet.container_config import network_files, resources, security
from sampan.kubelet.container_config.downward import DownwardApiContext
from sampan.kubelet.container_config.memory_qos import MemoryQos
from sampan.kubelet.container_config.network_files import DnsConfig, HostName, host_name, kernel_name
from sampan.kubelet.container_config.sysctls import pod_sysctls
from sampan.kubelet.container_config.variables import (
    ContainerConfigError,
    VariableSources,
    container_variables,
    expand_all,
    service_variables,
)
from sampan.kubelet.devices.plugin import EMPTY_DEVICE_OPTIONS, DeviceRunOptions
from sampan.kubelet.objects import NotSynced, ObjectSource, read_variable_objects
from sampan.machinery.informer import Lister
from sampan.machinery.loopback_services import LoopbackServices
from sampan.runtimes.config import ContainerConfig, Device, Mount, PortMapping, SandboxConfig
from sampan.runtimes.contract import ImageInfo, RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath, read_file

CONFIG_ERROR = "CreateContainerConfigError"
HOSTS_FILE, MESSAGES_DIRECTORY = "etc-hosts", "containers"
"""The file and the directory that containers of a pod can write to, in the directory of the pod."""
_SANDBOX_ERROR = "CreatePodSandboxError"
HASH = "io.kubernetes.container.hash"
_NAME, _NAMESPACE, _UID, _CONTAINER = (
    f"io.kubernetes.{part}" for part in ("pod.name", "pod.namespace", "pod.uid", "container.name")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Properties of the node and settings of the cluster that the configurations of containers depend on."""

    root: Path
    """Root directory of the kubelet's data."""
    logs: Path
    """Directory of the pod logs."""
    node_name: str
    host_name: str = ""
    """The host name of pods on the host network, if it is not that of the machine. As with other kubelets it is the
    name of the operating system; a node in network namespaces of its own has the name of the Node."""
    host_ips: Sequence[str] = ()
    node_memory: int = 1 << 30
    memory_qos: MemoryQos | None = None
    """The protection and throttling of memory; None with cgroups of version 1."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    dns: DnsConfig = field(default_factory=DnsConfig)
    node_hosts: Path = Path("/etc/hosts")
    default_sysctls: Mapping[str, str] = field(default_factory=dict)
    has_seccomp: bool = False
    """Whether containers without a seccomp profile use RuntimeDefault."""
    loopback_services: LoopbackServices | None = None
    """The loopback addresses of services, if the service proxy of the node works in user space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInputs:
    """The image, mounts, devices and other inputs that the kubelet prepares before it builds a container's
    configuration.
    """

    image: ImageInfo
    mounts: Callable[[Mapping[str, str]], Sequence[Mount]] = lambda variables: ()
    """Returns the mounts of volumes. The argument is the container's environment variables, which subPathExpr refers
    to.
    """
    devices: Sequence[Device] = ()
    """Block devices of volumes."""
    device_options: DeviceRunOptions = EMPTY_DEVICE_OPTIONS
    """The devices, mounts and variables that device plugins and DRA drivers add to the container."""
    extra_groups: Sequence[int] = ()
    """Supplemental groups that volumes require."""
    pod_ips: Sequence[str] = ()
    target: str = ""
    """ID of the container that an ephemeral container targets."""
    file_key: Callable[[FileKeySelector], str | None] = lambda ref: None
    """Returns the value of a key in a file of the pod's volumes."""


class ContainerConfigBuilder:
    """Builds the configurations of sandboxes and containers. Errors are raised as RuntimeFailure, with the reason for
    the container status.
    """

    def __init__(
        self,
        *,
        config: NodeSettings,
        objects: ObjectSource,
        services: Lister[Service],
        cgroup_parent: Callable[[Pod], str] = lambda pod: "",
        handler: Callable[[Pod], str] = lambda pod: "",
        warn: Callable[[Pod, str, str], None] = lambda pod, reason, message: None,
    ) -> None:
        """`handler` returns the runtime handler of the pod's RuntimeClass; `warn` records an event about a pod."""
        self._config, self._objects, self._services = config, objects, services
        self._cgroup_parent, self._handler, self._warn = cgroup_parent, handler, warn

    async def sandbox(self, pod: Pod, attempt: int) -> SandboxConfig:
        pod_dns, warnings = network_files.pod_dns(pod, self._config.dns)
        for error in warnings:
            self._warn(pod, "MissingClusterDNS" if "ClusterDNS" in error else "DNSConfigForming", error)
        if pod.spec.hostUsers is False:
            why = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
            raise RuntimeFailure(_SANDBOX_ERROR, why)
        try:
            is_of_node = pod.spec.hostNetwork
            hostname = self._config.host_name if is_of_node else kernel_name(pod, self._host_name(pod))
        except ContainerConfigError as error:
            raise RuntimeFailure(_SANDBOX_ERROR, str(error)) from None
        return SandboxConfig(
            uid=pod.metadata.uid,
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            attempt=attempt,
            hostname=hostname,
            dns=pod_dns,
            ports=port_mappings(pod),
            labels={**pod.metadata.labels, **identity(pod)},
            annotations=dict(pod.metadata.annotations),
            log_directory=self.log_directory(pod),
            cgroup_parent=self._cgroup_parent(pod),
            namespaces=security.namespaces(pod),
            sysctls=pod_sysctls(pod, self._config.default_sysctls),
            security=security.sandbox_security(pod),
            handler=self._handler(pod),
        )

    async def container(
        self,
        pod: Pod,
        container: Container | EphemeralContainer,
        attempt: int,
        inputs: ContainerInputs,
    ) -> ContainerConfig:
        config, plain, device_options = self._config, as_container(container), inputs.device_options
        try:
            variables = await self._variables(pod, plain, inputs)
            secured = security.container_security(
                pod, container, inputs.image, profiles=config.root / "seccomp", has_seccomp=config.has_seccomp
            )
        except (ContainerConfigError, NotSynced) as error:
            raise RuntimeFailure(CONFIG_ERROR, str(error)) from None
        if inputs.extra_groups:
            secured = replace(secured, supplemental_groups=[*secured.supplemental_groups, *inputs.extra_groups])
        mounts = [*device_options.mounts, *inputs.mounts(variables)]
        return ContainerConfig(
            name=container.name,
            attempt=attempt,
            image=container.image,
            image_ref=inputs.image.id,
            command=expand_all(container.command or (), variables),
            args=expand_all(container.args or (), variables),
            working_directory=container.workingDir,
            env=list({**device_options.env, **variables}.items()),
            mounts=[*mounts, *self._prepare_kubelet_mounts(pod, plain, attempt, inputs.pod_ips, mounts)],
            devices=[*device_options.devices, *inputs.devices],
            cdi_devices=device_options.cdi_devices,
            labels={**identity(pod), _CONTAINER: container.name},
            annotations={**device_options.annotations, HASH: container_hash(container)},
            log_path=self.log_directory(pod) / container.name / f"{attempt}.log",
            has_stdin=bool(container.stdin),
            closes_stdin=bool(container.stdinOnce),
            has_tty=bool(container.tty),
            stop_signal=_stop_signal(container),
            namespaces=security.namespaces(pod, inputs.target),
            security=secured,
            resources=resources.container_resources(
                pod, plain, node_memory=config.node_memory, memory_qos=config.memory_qos
            ),
        )

    def log_directory(self, pod: Pod) -> Path:
        meta = pod.metadata
        return self._config.logs / f"{meta.namespace}_{meta.name}_{meta.uid}"

    def pod_directory(self, pod: Pod) -> Path:
        return self._config.root / "pods" / pod.metadata.uid

    # -- internals ---------------------------------------------------------------------------------------------------

    def _host_name(self, pod: Pod) -> HostName:
        return host_name(pod, self._config.dns.cluster_domain)

    async def _variables(self, pod: Pod, container: Container, inputs: ContainerInputs) -> dict[str, str]:
        config, namespace = self._config, pod.metadata.namespace
        maps, secrets = await read_variable_objects(self._objects, pod, container)
        has_links = pod.spec.enableServiceLinks is not False
        sources = VariableSources(
            config_map=maps.get,
            secret=secrets.get,
            file_key=inputs.file_key,
            services=service_variables(self._reachable_services(), namespace, has_links=has_links),
        )
        context = DownwardApiContext(
            node_name=config.node_name,
            host_ips=config.host_ips,
            pod_ips=config.host_ips if pod.spec.hostNetwork else inputs.pod_ips,
            allocatable=config.allocatable,
        )
        return container_variables(pod, container, sources, context)

    def _reachable_services(self) -> Iterable[Service]:
        """Return the services with the addresses at which containers of this node reach them."""
        loopback = self._config.loopback_services
        services = self._services.list()
        return services if loopback is None else map(loopback.translate, services)

    def _prepare_kubelet_mounts(
        self, pod: Pod, container: Container, attempt: int, pod_ips: Sequence[str], mounted: Sequence[Mount]
    ) -> list[Mount]:
        """Return the mounts of the hosts file and of the termination message. A mount is omitted if the pod mounts a
        volume at its path.
        """
        targets = {mount.target.rstrip("/") for mount in mounted}
        mounts = []
        if "/etc/hosts" not in targets:
            mounts.append(Mount(source=self._hosts_file(pod, pod_ips), target="/etc/hosts"))
        if container.terminationMessagePath and container.terminationMessagePath not in targets:
            path = _make_empty_file(self.message_file(pod, container.name, attempt))
            mounts.append(Mount(source=path, target=container.terminationMessagePath))
        return mounts

    def _hosts_file(self, pod: Pod, pod_ips: Sequence[str]) -> Path:
        aliases = pod.spec.hostAliases
        if pod.spec.hostNetwork:
            text = network_files.node_hosts_file(_text(self._config.node_hosts), aliases)
        else:
            text = network_files.hosts_file(pod_ips, self._host_name(pod), aliases)
        path = self.pod_directory(pod) / HOSTS_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _has_content(path, text.encode()):
            path.write_text(text)
        path.chmod(0o644)
        return path

    def message_file(self, pod: Pod, name: str, attempt: int) -> Path:
        """Return the path of the termination message of this instance of the container."""
        return self.pod_directory(pod) / MESSAGES_DIRECTORY / name / f"termination-log-{attempt}"


def _make_empty_file(path: Path) -> Path:
    """Create an empty file that any user may write to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    path.chmod(0o666)
    return path


def identity(pod: Pod) -> dict[str, str]:
    """Return the labels that identify the pod of a sandbox or container."""
    meta = pod.metadata
    return {_NAME: meta.name, _NAMESPACE: meta.namespace, _UID: meta.uid}


def container_hash(container: Container | EphemeralContainer) -> str:
    """Return a hash of the container's name and image: if it changes, the container must be recreated. Other fields are
    immutable or resized in place.
    """
    text = msgspec.json.encode({"name": container.name, "image": container.image})
    return hashlib.blake2b(text, digest_size=4).hexdigest()


def port_mappings(pod: Pod) -> list[PortMapping]:
    if pod.spec.hostNetwork:
        return []
    return [
        PortMapping(
            protocol=port.protocol or "TCP",
            container_port=port.containerPort,
            host_port=port.hostPort,
            host_ip=port.hostIP,
        )
        for container in init_and_main_containers(pod.spec)
        for port in container.ports
        if port.hostPort
    ]


def _stop_signal(container: Container | EphemeralContainer) -> str:
    signal = container.lifecycle.stopSignal if container.lifecycle is not None else None
    return signal or ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the file has this content. At most its length is read, because containers can write anything to their
    hosts file.
    """
    try:
        return read_file(path, len(content)) == content
    except (OSError, UnsafePath):
        return False
