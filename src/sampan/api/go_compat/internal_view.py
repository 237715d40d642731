"""Parts of a pod in the form that kube-apiserver prints in error messages.

These messages show its internal types, which name some fields differently and omit nothing.
"""

import difflib
import re
from functools import cache
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.types.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimTemplate, PodTemplateSpec
from sampan.api.types.resource_v1 import ResourceClaimTemplateSpec

_NAMES = {
    "apiGroup": "APIGroup",
    "apiVersion": "APIVersion",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "cel": "CEL",
    "cephfs": "CephFS",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "csi": "CSI",
    "diskURI": "DataDiskURI",
    "dnsConfig": "DNSConfig",
    "dnsPolicy": "DNSPolicy",
    "endpoints": "EndpointsName",
    "fc": "FC",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "grpc": "GRPC",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "ip": "IP",
    "iqn": "IQN",
    "iscsi": "ISCSI",
    "iscsiInterface": "ISCSIInterface",
    "keyring": "Keyring",
    "nfs": "NFS",
    "os": "OS",
    "pdName": "PDName",
    "pkixPublicKey": "PKIXPublicKey",
    "rbd": "RBD",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "seLinuxOptions": "SELinuxOptions",
    "serviceAccount": "DeprecatedServiceAccount",
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "tcpSocket": "TCPSocket",
    "tty": "TTY",
    "uid": "UID",
    "wwids": "WWIDs",
}
_RBD_NAMES = {"monitors": "CephMonitors", "image": "RBDImage", "pool": "RBDPool", "user": "RadosUser"}


def internal_view(part: Any) -> Any:
    """Return the part as a JSON value with the keys in the order of the internal type."""
    if isinstance(part, PersistentVolumeClaimTemplate | PodTemplateSpec | ResourceClaimTemplateSpec):
        return {**_view_metadata(part.metadata), "Spec": internal_view(part.spec)}
    if isinstance(part, PersistentVolumeClaim):
        parts = {"Spec": internal_view(part.spec), "Status": internal_view(part.status)}
        return {**_view_metadata(part.metadata), **parts}
    if isinstance(part, msgspec.Struct):
        return _view_struct(part)
    if isinstance(part, list):
        return [internal_view(item) for item in part] or None
    if isinstance(part, dict):
        return dict(sorted(part.items())) or None
    return part


def _view_struct(part: msgspec.Struct) -> Any:
    kind = type(part)
    if kind.__module__.endswith(".meta_v1"):
        return _view_metadata(part)
    special = _RBD_NAMES if kind.__name__ == "RBDVolumeSource" else {}
    nullable = _nullable_fields(kind)
    view = {}
    for name in kind.__struct_fields__:
        value = getattr(part, name)
        is_empty_list = value == [] and name in nullable
        view[special.get(name) or _name(name)] = [] if is_empty_list else internal_view(value)
    return view


@cache
def _nullable_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields that distinguish null from an empty list, as a field of the internal type does."""
    return frozenset(
        field.name
        for field in msgspec.structs.fields(kind)
        if field.default is None or field.default_factory is type(None)
    )


def _view_metadata(part: msgspec.Struct) -> dict[str, Any]:
    """Return a metav1 object, whose internal type is the API type, with its maps sorted."""
    value: dict[str, Any] = msgspec.to_builtins(part)
    return {name: dict(sorted(entry.items())) if isinstance(entry, dict) else entry for name, entry in value.items()}


def _name(field: str) -> str:
    return _NAMES.get(field) or field[0].upper() + field[1:]


_CONTEXT_LINES = 3
"""The number of unchanged context lines around a hunk of a diff."""


def difference(old: Any, new: Any) -> str:
    """Return a unified diff of two parts as kube-apiserver shows it."""
    before, after = (_lines(internal_view(part)) for part in (old, new))
    if max(len(before), len(after)) <= limits.COMPARED_LINES:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT_LINES))[2:]
    else:
        lines = _build_hunk(before, after)
    return "".join(f"{line}\n" for line in lines)


def _build_hunk(before: list[str], after: list[str]) -> list[str]:
    """Return the difference as one hunk from the first to the last line that differs.

    Unchanged lines in between are not searched for, because the time for that grows with the square of their number.
    """
    shorter = min(len(before), len(after))
    start = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    end = next((i for i in range(shorter - start) if before[-1 - i] != after[-1 - i]), shorter - start)
    first, last = max(start - _CONTEXT_LINES, 0), max(end - _CONTEXT_LINES, 0)
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    sizes = f"-{_range(first, len(before) - last)} +{_range(first, len(after) - last)}"
    return [
        f"@@ {sizes} @@",
        *(f" {line}" for line in before[first:start]),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in before[len(before) - end : len(before) - last]),
    ]


def _range(start: int, stop: int) -> str:
    return f"{start + 1},{stop - start}" if stop - start != 1 else f"{start + 1}"


def _lines(view: Any) -> list[str]:
    return _escape_as_go(msgspec.json.format(msgspec.json.encode(view), indent=1)).split("\n")


def _escape_as_go(text: bytes) -> str:
    """Return the text with the additional escapes of Go's JSON encoder."""
    return re.sub(r"[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text.decode())


def encode_error_value(part: Any) -> msgspec.Raw:
    """Return the part as the value of a validation error."""
    return msgspec.Raw(_escape_as_go(msgspec.json.encode(internal_view(part))).encode())
