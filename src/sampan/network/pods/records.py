"""Records of the pods' network on disk, one file each, so that a restarted kubelet allocates no address twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from sampan.host.durable_files import remove_unfinished, write_durably
from sampan.runtimes.config import PortMapping


class HostPortMapping(msgspec.Struct, frozen=True, kw_only=True):
    protocol: str
    host_ip: str
    """The address of the node on which the host port listens. It is empty for all addresses, and 0.0.0.0 or :: for all
    addresses of that family."""
    host_port: int
    container_port: int


class PodNetworkRecord(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    link: str
    namespace: str
    addresses: tuple[str, ...]
    """Addresses with prefix lengths."""
    ports: tuple[HostPortMapping, ...] = ()
    ingress_bits_per_s: int = 0
    """The limit of the traffic that the pod receives, in bits per second; 0 for no limit."""
    egress_bits_per_s: int = 0


class PodNetworkRecords:
    """The record files. A record is written before anything is created, and removed after everything is deleted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self) -> list[PodNetworkRecord]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_unfinished(self._directory)
        records = (self._read(file) for file in sorted(self._directory.glob("*.json")))
        return [record for record in records if record is not None]

    def _read(self, file: Path) -> PodNetworkRecord | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=PodNetworkRecord)
        except msgspec.DecodeError:  # Only a power failure leaves a damaged file, and no pod survives a power failure.
            file.unlink()
            return None

    def save(self, record: PodNetworkRecord) -> None:
        """Write the record, without waiting for the disk: no pod survives a power failure."""
        write_durably(self._file(record.uid), msgspec.json.encode(record), mode=0o600, is_synced=False)

    def remove(self, uid: str) -> None:
        self._file(uid).unlink(missing_ok=True)

    def _file(self, uid: str) -> Path:
        return self._directory / f"{quote(uid, safe='')}.json"


def host_port_mappings(ports: Sequence[PortMapping]) -> tuple[HostPortMapping, ...]:
    """Return the port mappings that request a host port."""
    return tuple(
        HostPortMapping(
            protocol=port.protocol.lower(),
            host_ip=port.host_ip,
            host_port=port.host_port,
            container_port=port.container_port,
        )
        for port in ports
        if port.host_port
    )
