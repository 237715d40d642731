"""The record of the cluster that a machine has joined."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sampan.cluster.join.discovery import JoinError
from sampan.machinery.pki.private_files import write_private


class JoinRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The content of `join.json`. It contains no secret: the node authenticates with its client certificate."""

    server: str
    """The URL of the API server."""
    node: str
    pod_cidrs: list[str] = []
    service_cidrs: list[str] = []
    dns_domain: str = "cluster.local"
    runtime: str = ""
    """The runtime of the node, so that its pods are found again."""
    endpoint: str = ""
    pod_network: str = "auto"
    labels: dict[str, str] = {}
    node_ip: str = ""
    """The address of the node, if the user has chosen it; otherwise empty."""
    port: int = 10250


def read_record(path: Path) -> JoinRecord | None:
    """Return the record, or None if the machine has not joined a cluster."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=JoinRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise JoinError(f"cannot read {path}: {error}") from None


def write_record(path: Path, record: JoinRecord) -> None:
    write_private(path, msgspec.json.encode(record))
