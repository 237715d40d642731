"""Kubeconfig files. Unknown authentication methods raise an error that names them; they are never ignored."""

from __future__ import annotations

import base64
import binascii
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from sampan.machinery.client.access import Access

if TYPE_CHECKING:
    from sampan.machinery.client.exec_credentials import CredentialSource

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")

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
                self._places[id(entry)] = path
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
        return self.place(entry).parent / text

    def place(self, entry: Entry) -> Path:
        """Return the kubeconfig file that contains the entry."""
        return self._places.get(id(entry), Path())

    def user_name(self, user: Entry) -> str:
        return next(
            (name for (section, name), entry in self._entries.items() if section == "users" and entry is user), ""
        )

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
        credential_source=_credential_source(config, cluster, user),
        impersonation=_impersonation(user),
    )


def _credential_source(config: Kubeconfig, cluster: Entry, user: Entry) -> CredentialSource | None:
    provider, plugin = user.get("auth-provider"), user.get("exec")
    if not (provider or plugin):
        return None
    from sampan.machinery.client.exec_credentials import CredentialError, ExecCredentialSource, OidcCredentialSource

    try:
        if plugin:
            if provider:
                raise CredentialError("authProvider cannot be provided in combination with an exec plugin")
            entry = dict(_object(plugin, "exec"))
            if "/" in str(entry.get("command") or ""):
                entry["command"] = str(config.path(user, str(entry["command"])))
            return ExecCredentialSource(entry, _cluster_info(config, cluster))
        provider = _object(provider, "auth-provider")
        name = provider.get("name")
        if name != "oidc":
            raise CredentialError(f'no Auth Provider found for name "{name}"')
        values = _object(provider.get("config") or {}, "auth-provider.config")
        return OidcCredentialSource(
            {str(key): str(value) for key, value in values.items()},
            functools.partial(_persist_tokens, config.place(user), config.user_name(user)),
        )
    except CredentialError as error:
        raise KubeconfigError(f"{config.source}: {error}") from error


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise KubeconfigError(f"{name} must be an object")
    return value


def _cluster_info(config: Kubeconfig, cluster: Entry) -> dict[str, Any]:
    """Return the cluster as an exec plug-in gets it."""
    return {
        "server": str(cluster.get("server") or ""),
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(config.pem(cluster, "certificate-authority")).decode(),
        "proxy-url": cluster.get("proxy-url"),
    }


def _persist_tokens(path: Path, user: str, tokens: dict[str, str]) -> None:
    """Write refreshed tokens to the kubeconfig file that contains the user."""
    from sampan.machinery.client.exec_credentials import CredentialError
    from sampan.machinery.private_files import write_private

    document = dict(read_document(path))
    for item in document.get("users") or ():
        if item.get("name") == user:
            item["user"]["auth-provider"]["config"] = tokens
    try:
        write_private(path, yaml.safe_dump(document).encode())
    except OSError as error:
        raise CredentialError(f"could not persist new tokens: {error.strerror or error}") from error


def _impersonation(user: Entry) -> list[tuple[str, str]]:
    pairs = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    pairs += [("Impersonate-Group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        pairs += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values or ()]
    return [(key, str(value)) for key, value in pairs if value]
