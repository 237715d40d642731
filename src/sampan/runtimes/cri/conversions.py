"""Convert CRI responses to the types of the pod table."""

from __future__ import annotations

from typing import Any

from sampan.runtimes import contract, labels
from sampan.runtimes.contract import ContainerUser, ImageInfo, Usage
from sampan.runtimes.pod_table import ObservedContainer, ObservedSandbox, exit_reason

_STATES = (contract.CREATED, contract.RUNNING, contract.EXITED, contract.UNKNOWN)
_READY = 0


def state(number: int) -> str:
    return _STATES[number] if number < len(_STATES) else contract.UNKNOWN


def sandbox(status: Any) -> ObservedSandbox:
    """Convert the status of a sandbox, or an item of a list, which has no addresses."""
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


def container_usage(stats: Any, cores: float) -> Usage:
    disk = stats.writable_layer
    return Usage(
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


def sandbox_usage(stats: Any, cores: float) -> Usage:
    linux = stats.linux
    link = linux.network.default_interface
    return Usage(
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
