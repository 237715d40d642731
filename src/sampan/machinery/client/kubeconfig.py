"""Kubeconfig files. Unsupported authentication methods raise an error that names them; they are never ignored."""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from sampan.machinery.client.access import Access

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNSUPPORTED = {"exec": "exec plug-ins", "auth-provider": "auth provider plug-ins"}

Entry = Mapping[str, Any]


class KubeconfigError(ValueError):
    """The kubeconfig cannot be used; the message names the file and the error."""


def default_paths() -> list[Path]:
    """Return the files in $KUBECONFIG, or the one in the home directory."""
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path.home() / ".kube" / "config"]


def load(paths: Sequence[Path] | Path, *, context: str = "") -> Access:
    """Return the server and credentials of a context, by default the current one. Of entries with the same name in
    several files the first counts; missing files are ignored as long as one exists."""
    config = read([paths] if isinstance(paths, Path) else paths)
    name = context or config.current
    if not name:
        raise KubeconfigError(f"{config.source}: no current context is set; choose a context")
    chosen = config.entry("contexts", "context", name)
    return config.access(str(chosen.get("cluster", "")), str(chosen.get("user") or ""))


def namespace_of(paths: Sequence[Path] | Path, *, context: str = "") -> str:
    """Return the namespace of the context, `default` if it sets none."""
    config = read([paths] if isinstance(paths, Path) else paths)
    name = context or config.current
    return str(config.entry("contexts", "context", name).get("namespace") or "default") if name else "default"


def in_cluster() -> Access:
    """Return the access of a pod to its own cluster, by its service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port):
        raise KubeconfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    shown = f"[{host}]" if ":" in host else host
    ca = (_IN_CLUSTER / "ca.crt").read_bytes()
    return Access(server=f"https://{shown}:{port}", ca_pem=ca, token_file=_IN_CLUSTER / "token")


class Kubeconfig:
    """The merged content of kubeconfig files."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.current = ""
        self._entries: dict[tuple[str, str], Entry] = {}
        self._places: dict[int, Path] = {}

    def take(self, path: Path, content: Mapping[str, Any]) -> None:
        self.current = self.current or str(content.get("current-context") or "")
        for section, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            items = content.get(section) or []
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise KubeconfigError(f"{path}: {section} must be a list of objects")
            for item in items:
                entry = item.get(inner) or {}
                if not isinstance(entry, dict):
                    raise KubeconfigError(f"{path}: {section}: {inner} must be an object")
                self._places[id(entry)] = path.parent
                self._entries.setdefault((section, str(item.get("name", ""))), entry)

    def has(self, section: str, name: str) -> bool:
        return (section, name) in self._entries

    def access(self, cluster: str, user: str) -> Access:
        """Return the server of a cluster entry with the credentials of a user entry; an empty user has none."""
        entry = self.entry("users", "user", user) if user else {}
        return _access(self, self.entry("clusters", "cluster", cluster), entry)

    def entry(self, section: str, inner: str, name: str) -> Entry:
        entry = self._entries.get((section, name))
        if entry is None:
            raise KubeconfigError(f"{self.source}: there is no {inner} {name!r}")
        return entry

    def path(self, entry: Entry, text: str) -> Path:
        """Resolve a path relative to the kubeconfig file that contains the entry."""
        return self._places.get(id(entry), Path()) / text

    def pem(self, entry: Entry, key: str) -> bytes:
        """Return the bytes of `key`-data, or of the file that `key` names."""
        data, file = entry.get(f"{key}-data"), entry.get(key)
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError) as error:
                raise KubeconfigError(f"{self.source}: {key}-data is not base64: {error}") from error
        if not file:
            return b""
        try:
            return self.path(entry, file).read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{self.source}: {key}: {error}") from error


def read(paths: Sequence[Path]) -> Kubeconfig:
    """Read and merge kubeconfig files. Of entries with the same name the first counts."""
    config = Kubeconfig(", ".join(map(str, paths)))
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise KubeconfigError(f"{config.source}: there is no such file")
    for path in existing:
        config.take(path, read_document(path))
    return config


def read_document(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: cannot be read: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig")
    return content


def _access(config: Kubeconfig, cluster: Entry, user: Entry) -> Access:
    for key, feature in _UNSUPPORTED.items():
        if user.get(key):
            raise KubeconfigError(f"{config.source}: {feature} are not supported; use a token or a client certificate")
    if not cluster.get("server"):
        raise KubeconfigError(f"{config.source}: the cluster has no server")
    token_file = user.get("tokenFile")
    return Access(
        server=str(cluster["server"]),
        ca_pem=config.pem(cluster, "certificate-authority"),
        is_insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=str(cluster.get("proxy-url") or ""),
        client_cert_pem=config.pem(user, "client-certificate"),
        client_key_pem=config.pem(user, "client-key"),
        token=str(user.get("token") or ""),
        token_file=config.path(user, token_file) if token_file else None,
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        impersonation=_impersonation(user),
    )


def _impersonation(user: Entry) -> list[tuple[str, str]]:
    pairs = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    pairs += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        pairs += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values or ()]
    return [(key, str(value)) for key, value in pairs if value]
