"""Kubeconfig files: written for a new cluster, and merged into the user's own kubeconfig on request."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from sampan.cluster.errors import ClusterError
from sampan.machinery.config_file import ConfigFileError, read_config_file
from sampan.machinery.pki.private_files import write_private

_PARTS = ("clusters", "users", "contexts")


def admin_config(*, name: str, url: str, ca: bytes, certificate: bytes, key: bytes) -> dict[str, Any]:
    """Return a self-contained kubeconfig for the administrator of a cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster_entry(name, url, ca)],
        "users": [
            {
                "name": f"{name}-admin",
                "user": {"client-certificate-data": _b64(certificate), "client-key-data": _b64(key)},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-admin"}}],
        "current-context": name,
        "preferences": {},
    }


def cluster_entry(name: str, url: str, ca: bytes) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": url, "certificate-authority-data": _b64(ca)}}


def write(path: Path, config: dict[str, Any]) -> None:
    import yaml  # imported here, so that the start of the API server does not wait for it

    try:
        write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
    except OSError as error:
        raise ClusterError(f"cannot write the kubeconfig {path}: {error.strerror}") from None


def merge(path: Path, config: dict[str, Any]) -> None:
    """Add the cluster to a kubeconfig and make it the current context. Other entries are kept."""
    merged: dict[str, Any] = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            merged = read_config_file(path, is_strict=False) or {}
    except OSError as error:
        raise ClusterError(f"--merge-kubeconfig: cannot create {path.parent}: {error.strerror}") from None
    except ConfigFileError as error:
        raise ClusterError(f"--merge-kubeconfig: {path}: {error}") from None
    if not _is_config(merged):
        raise ClusterError(f"--merge-kubeconfig: {path} is not a kubeconfig")
    for part in _PARTS:
        new = config[part]
        names = {entry["name"] for entry in new}
        merged[part] = [entry for entry in merged.get(part) or [] if entry.get("name") not in names] + new
    merged.update({key: config[key] for key in ("apiVersion", "kind", "current-context")})
    write(path, merged)


def unmerge(path: Path, name: str) -> None:
    """Remove a cluster, its context and its administrator from a kubeconfig, if it has them. A file that cannot be read
    or is not a kubeconfig is left unchanged."""
    try:
        config = read_config_file(path, is_strict=False)
    except ConfigFileError:
        return
    if not _is_config(config):
        return
    names = {"clusters": name, "users": f"{name}-admin", "contexts": name}
    for part, own in names.items():
        config[part] = [entry for entry in config.get(part) or [] if entry.get("name") != own]
    if config.get("current-context") == name:
        config["current-context"] = ""
    write(path, config)


def _is_config(value: Any) -> bool:
    parts = [value.get(part) or [] for part in _PARTS] if isinstance(value, dict) else [None]
    return all(isinstance(part, list) and all(isinstance(entry, dict) for entry in part) for part in parts)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
