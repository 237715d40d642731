"""CRI messages: requests are built from the configurations of sandboxes and containers, and responses are parsed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sampan.runtimes import contract, labels
from sampan.runtimes.config import (
    ContainerConfig,
    ContainerResources,
    Mount,
    NamespaceOptions,
    SandboxConfig,
    SecurityProfile,
)
from sampan.runtimes.contract import ContainerUsage, ContainerUser, ImageInfo
from sampan.runtimes.cri.client import load
from sampan.runtimes.labels import container_labels, sandbox_labels
from sampan.runtimes.pod_table import ObservedContainer, ObservedSandbox, exit_reason

_MODES = {"pod": "POD", "container": "CONTAINER", "node": "NODE", "target": "TARGET"}
_PROPAGATION = {
    "private": "PROPAGATION_PRIVATE",
    "rslave": "PROPAGATION_HOST_TO_CONTAINER",
    "rshared": "PROPAGATION_BIDIRECTIONAL",
}
_NO_LIMIT = -1
_STATES = (contract.CREATED, contract.RUNNING, contract.EXITED, contract.UNKNOWN)
_READY = 0


def sandbox_message(config: SandboxConfig, attempt: int, node: str) -> Any:
    cri = load()
    metadata = cri.PodSandboxMetadata(name=config.name, uid=config.uid, namespace=config.namespace, attempt=attempt)
    message = cri.PodSandboxConfig(
        metadata=metadata,
        hostname=config.hostname,
        log_directory=str(config.log_directory),
        port_mappings=[
            cri.PortMapping(
                protocol=port.protocol or "TCP",
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in config.ports
        ],
        labels=sandbox_labels(config, node),
        annotations=dict(config.annotations),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=_sandbox_security(config),
            sysctls=dict(config.sysctls),
        ),
    )
    if config.dns is not None:
        dns = config.dns
        message.dns_config.CopyFrom(cri.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options))
    return message


def _sandbox_security(config: SandboxConfig) -> Any:
    cri, security = load(), config.security
    return cri.LinuxSandboxSecurityContext(
        namespace_options=_namespaces(config.namespaces),
        selinux_options=_selinux(security.selinux),
        run_as_user=_number(security.user),
        run_as_group=_number(security.group),
        readonly_rootfs=security.is_root_read_only,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=security.supplemental_policy,
        privileged=security.is_privileged,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )


def container_message(config: ContainerConfig, sandbox: SandboxConfig, node: str) -> Any:
    cri = load()
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=cri.ImageSpec(image=config.image_ref or config.image, user_specified_image=config.image),
        command=config.command,
        args=config.args,
        working_dir=config.working_directory,
        envs=[cri.KeyValue(key=name, value=value) for name, value in config.env],
        mounts=[_mount(item) for item in config.mounts],
        devices=[
            cri.Device(container_path=item.path, host_path=item.host_path, permissions=item.permissions)
            for item in config.devices
        ],
        CDI_devices=[cri.CDIDevice(name=item) for item in config.cdi_devices],
        labels=container_labels(config, sandbox, node),
        annotations=dict(config.annotations),
        log_path=os.path.relpath(config.log_path, sandbox.log_directory),
        stdin=config.has_stdin,
        stdin_once=config.closes_stdin,
        tty=config.has_tty,
        linux=cri.LinuxContainerConfig(
            resources=resources_message(config.resources), security_context=_container_security(config)
        ),
        stop_signal=_signal(config.stop_signal),
    )


def _container_security(config: ContainerConfig) -> Any:
    cri, security = load(), config.security
    return cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(
            add_capabilities=[_capability(capability) for capability in security.added],
            drop_capabilities=[_capability(capability) for capability in security.dropped],
        ),
        privileged=security.is_privileged,
        namespace_options=_namespaces(config.namespaces),
        selinux_options=_selinux(security.selinux),
        run_as_user=_number(security.user),
        run_as_group=_number(security.group),
        run_as_username=security.username if security.user is None else "",
        readonly_rootfs=security.is_root_read_only,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=security.supplemental_policy,
        apparmor_profile=_format_deprecated_apparmor(security.apparmor),
        no_new_privs=security.may_not_gain_privileges,
        masked_paths=security.masked_paths,
        readonly_paths=security.read_only_paths,
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor),
    )


def resources_message(resources: ContainerResources) -> Any:
    cri = load()
    return cri.LinuxContainerResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_in_bytes=resources.memory_bytes,
        memory_swap_limit_in_bytes=resources.memory_bytes,
        oom_score_adj=resources.oom_score_adjust,
        cpuset_cpus=resources.cpus,
        cpuset_mems=resources.memory_nodes,
        hugepage_limits=[
            cri.HugepageLimit(page_size=f"{size.removesuffix('i')}B", limit=limit)
            for size, limit in resources.huge_pages.items()
        ],
        unified=dict(resources.cgroup_files),
    )


def build_limits_update(resources: ContainerResources) -> Any:
    """Return the limits for updating a running container. A removed limit is stated explicitly."""
    message = resources_message(resources)
    message.cpu_quota = resources.cpu_quota or _NO_LIMIT
    return message


def _namespaces(namespaces: NamespaceOptions) -> Any:
    target = namespaces.target.rpartition("://")[2]
    return load().NamespaceOption(
        network=_MODES[namespaces.network], pid=_MODES[namespaces.pid], ipc=_MODES[namespaces.ipc], target_id=target
    )


def _mount(mount: Mount) -> Any:
    cri = load()
    message = cri.Mount(
        container_path=mount.target,
        host_path="" if mount.image else str(mount.source),
        readonly=mount.is_read_only,
        propagation=_PROPAGATION[mount.propagation],
        recursive_read_only=mount.is_recursively_read_only,
        image_sub_path=mount.image_sub_path,
        mount_options=mount.options,
    )
    if mount.image:
        message.image.image = mount.image
    return message


def _profile(profile: SecurityProfile) -> Any:
    if not profile.type:
        return None
    return load().SecurityProfile(profile_type=profile.type, localhost_ref=profile.local)


def _format_deprecated_apparmor(profile: SecurityProfile) -> str:
    """Return the profile in the deprecated string form, for runtimes that lack the `apparmor` field."""
    if profile.type == "Localhost":
        return f"localhost/{profile.local}"
    return {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}.get(profile.type, "")


def _selinux(options: Mapping[str, str]) -> Any:
    labels = {name: options.get(name, "") for name in ("user", "role", "type", "level")}
    return load().SELinuxOption(**labels) if any(labels.values()) else None


def _number(value: int | None) -> Any:
    return load().Int64Value(value=value) if value is not None else None


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _signal(name: str) -> str:
    if not name:
        return "RUNTIME_DEFAULT"
    return (name if name.startswith("SIG") else f"SIG{name}").replace("+", "PLUS").replace("-", "MINUS")


def state(number: int) -> str:
    return _STATES[number] if number < len(_STATES) else contract.UNKNOWN


def sandbox(status: Any) -> ObservedSandbox:
    """Convert the status of a sandbox, or an item of a list of sandboxes, which has no addresses."""
    network = status.network if hasattr(status, "network") else None
    ips = (
        [network.ip, *(address.ip for address in network.additional_ips)] if network is not None and network.ip else []
    )
    return ObservedSandbox(
        id=status.id,
        attempt=status.metadata.attempt,
        is_ready=status.state == _READY,
        created_at=status.created_at / 1e9,
        ips=ips,
    )


def container(status: Any, sandbox_id: str) -> ObservedContainer:
    return ObservedContainer(
        id=status.id,
        sandbox=sandbox_id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=state(status.state),
        image=status.labels.get(labels.IMAGE) or status.image.user_specified_image or status.image.image,
        image_ref=status.image_ref,
        created_at=status.created_at / 1e9,
        started_at=status.started_at / 1e9,
        finished_at=status.finished_at / 1e9,
        exit_code=status.exit_code,
        reason=exit_reason(status.reason, status.exit_code),
        message=status.message,
        log_path=status.log_path,
        user=_user(status.user.linux) if status.HasField("user") and status.user.HasField("linux") else None,
    )


def _user(user: Any) -> ContainerUser:
    return ContainerUser(user.uid, user.gid, tuple(user.supplemental_groups))


def image(message: Any) -> ImageInfo:
    user = str(message.uid.value) if message.HasField("uid") else message.username
    return ImageInfo(
        id=message.id,
        names=list(message.repo_tags),
        digests=list(message.repo_digests),
        size=message.size,
        user=user,
        is_pinned=message.pinned,
    )


def container_usage(stats: Any, cores: float) -> ContainerUsage:
    disk = stats.writable_layer
    return ContainerUsage(
        name=stats.attributes.metadata.name,
        cpu_cores=stats.cpu.usage_nano_cores.value / 1e9 if stats.cpu.HasField("usage_nano_cores") else cores,
        memory_bytes=stats.memory.working_set_bytes.value,
        cpu_s=stats.cpu.usage_core_nano_seconds.value / 1e9,
        memory_rss_bytes=_optional_value(stats.memory, "rss_bytes"),
        page_faults=_optional_value(stats.memory, "page_faults"),
        major_page_faults=_optional_value(stats.memory, "major_page_faults"),
        disk_bytes=_optional_value(disk, "used_bytes"),
        inodes=_optional_value(disk, "inodes_used"),
    )


def sandbox_usage(stats: Any, cores: float) -> ContainerUsage:
    linux = stats.linux
    link = linux.network.default_interface
    return ContainerUsage(
        name="",
        cpu_cores=linux.cpu.usage_nano_cores.value / 1e9 if linux.cpu.HasField("usage_nano_cores") else cores,
        memory_bytes=linux.memory.working_set_bytes.value,
        cpu_s=linux.cpu.usage_core_nano_seconds.value / 1e9,
        memory_rss_bytes=_optional_value(linux.memory, "rss_bytes"),
        page_faults=_optional_value(linux.memory, "page_faults"),
        major_page_faults=_optional_value(linux.memory, "major_page_faults"),
        processes=_optional_value(linux.process, "process_count"),
        received_bytes=_optional_value(link, "rx_bytes"),
        sent_bytes=_optional_value(link, "tx_bytes"),
    )


def _optional_value(message: Any, name: str) -> int | None:
    return int(getattr(message, name).value) if message.HasField(name) else None
