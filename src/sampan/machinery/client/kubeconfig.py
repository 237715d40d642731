"""Kubeconfig files. Unknown authentication methods raise an error that names them; they are never ignored."""

from __future__ import annotations

import base64
import binascii
import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from sampan.api.addresses import join_host_port
from sampan.machinery.client.access import Access
from sampan.machinery.config_file import decode_config

if TYPE_CHECKING:
    from sampan.machinery.client.exec_credentials import CredentialSource

_SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Entry = Mapping[str, Any]

_REMOVED_PROVIDERS = {
    "gcp": "The gcp auth plugin has been removed.\n"
    'Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.\n'
    "See https://cloud.google.com/blog/products/containers-kubernetes/kubectl-auth-changes-in-gke for further details",
    "azure": "The azure auth plugin has been removed.\n"
    "Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead.\n"
    "See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins for "
    "further details",
}
_DATE = re.compile(r"[0-9]{4}-[0-9]")
_NO_ENTRY: Entry = {}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""The fields of a kubeconfig whose values are paths of files."""


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
    return config.access(config.text(chosen, "cluster"), config.text(chosen, "user"))


def load_in_cluster() -> Access:
    """Return the server and credentials for a process in a pod, which uses the service account of the pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not (host and port):
        raise KubeconfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    ca = (_SERVICE_ACCOUNT_DIRECTORY / "ca.crt").read_bytes()
    return Access(
        server=f"https://{join_host_port(host, port)}", ca_pem=ca, token_file=_SERVICE_ACCOUNT_DIRECTORY / "token"
    )


class _WorkingPath(str):
    """A path that is relative to the working directory, not to a kubeconfig file."""

    __slots__ = ()


class Kubeconfig:
    """The merged content of kubeconfig files."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.current = ""
        self._entries: dict[tuple[str, str], Entry] = {}
        self._places: dict[int, Path] = {}

    def take(self, path: Path, content: Mapping[str, Any]) -> None:
        self.current = self.current or self.text(content, "current-context")
        for section, inner in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            items = content.get(section) or []
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise KubeconfigError(f"{path}: {section} must be a list of objects")
            for item in items:
                entry = item.get(inner) or {}
                if not isinstance(entry, dict):
                    raise KubeconfigError(f"{path}: {section}: {inner} must be an object")
                self._places[id(entry)] = path
                self._entries.setdefault((section, self.text(item, "name")), entry)

    def text(self, entry: Entry, key: str) -> str:
        """Return a field that is a string; empty if it is absent. Raise KubeconfigError for an object or a list."""
        value = entry.get(key)
        if isinstance(value, dict | list):
            raise KubeconfigError(f"{self.source}: {key} must be a string")
        return value if isinstance(value, str) else str(value) if value else ""

    def has(self, section: str, name: str) -> bool:
        return (section, name) in self._entries

    def access(self, cluster: str, user: str) -> Access:
        """Return the server of a cluster entry with the credentials of a user entry. With an empty user name, the only
        credentials are those that `override` has set."""
        entry = self.entry("users", "user", user) if user else self._entries.get(("users", ""), _NO_ENTRY)
        return _access(self, self.entry("clusters", "cluster", cluster), entry)

    def entry(self, section: str, inner: str, name: str) -> Entry:
        entry = self._entries.get((section, name))
        if entry is None:
            raise KubeconfigError(f"{self.source}: there is no {inner} {name!r}")
        return entry

    def override(self, section: str, name: str, values: Mapping[str, Any]) -> Entry:
        """Replace fields of an entry, which need not exist, and return the entry. Paths in `values` are relative to the
        working directory, unlike those of the file."""
        before = self._entries.get((section, name), _NO_ENTRY)
        entry = dict(before)
        for key in _PATHS:
            if path := self.text(entry, key):
                entry[key] = str(self.path(before, path).absolute())
        for key, value in values.items():
            entry[key] = _WorkingPath(value) if key in _PATHS else value
        self._places[id(entry)] = self._places.get(id(before), Path())
        self._entries[section, name] = entry
        return entry

    def path(self, entry: Entry, text: str) -> Path:
        """Resolve a path relative to the kubeconfig file that contains the entry."""
        return Path(text) if isinstance(text, _WorkingPath) else self.find_file(entry).parent / text

    def find_file(self, entry: Entry) -> Path:
        """Return the kubeconfig file that contains the entry."""
        return self._places.get(id(entry), Path())

    def user_name(self, user: Entry) -> str:
        return next(
            (name for (section, name), entry in self._entries.items() if section == "users" and entry is user), ""
        )

    def pem(self, entry: Entry, key: str) -> bytes:
        """Return the bytes of `key`-data, or of the file that `key` names."""
        data, file = self.text(entry, f"{key}-data"), self.text(entry, key)
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError) as error:
                raise KubeconfigError(f"{self.source}: {key}-data is not base64: {error}") from error
        if not file:
            return b""
        try:
            return self.path(entry, file).read_bytes()
        except (OSError, ValueError) as error:
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
        content = _parse(path.read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: cannot be read: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig")
    return content


def _parse(text: str) -> Any:
    """Return the value of a YAML text. A text that may contain anchors or dates is read by `sampan.api.codec.yaml`: it
    reads dates as text and limits the expansion of anchors, a few hundred bytes of which can stand for a value that
    does not fit into memory. Other texts are read without it, because it takes longer to import."""
    if "&" in text or _DATE.search(text):
        return decode_config(text, is_strict=False)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _access(config: Kubeconfig, cluster: Entry, user: Entry) -> Access:
    if not (server := config.text(cluster, "server")):
        raise KubeconfigError(f"{config.source}: the cluster has no server")
    token_file = config.text(user, "tokenFile")
    return Access(
        server=server,
        ca_pem=config.pem(cluster, "certificate-authority"),
        is_insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=config.text(cluster, "tls-server-name"),
        proxy_url=config.text(cluster, "proxy-url"),
        client_cert_pem=config.pem(user, "client-certificate"),
        client_key_pem=config.pem(user, "client-key"),
        token=config.text(user, "token"),
        token_file=config.path(user, token_file) if token_file else None,
        username=config.text(user, "username"),
        password=config.text(user, "password"),
        credential_source=_credential_source(config, cluster, user),
        impersonation=_impersonation(config, user),
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
            if "/" in (command := config.text(entry, "command")):
                entry["command"] = str(config.path(user, command).absolute())
            return ExecCredentialSource(entry, _cluster_info(config, cluster))
        provider = _object(provider, "auth-provider")
        name = provider.get("name")
        if isinstance(name, str) and name in _REMOVED_PROVIDERS:
            raise CredentialError(_REMOVED_PROVIDERS[name])
        if name != "oidc":
            raise CredentialError(f'no Auth Provider found for name "{name}"')
        values = _object(provider.get("config") or {}, "auth-provider.config")
        return OidcCredentialSource(
            {str(key): str(value) for key, value in values.items()},
            functools.partial(_persist_tokens, config.find_file(user), config.user_name(user)),
        )
    except CredentialError as error:
        raise KubeconfigError(f"{config.source}: {error}") from error


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise KubeconfigError(f"{name} must be an object")
    return value


def _cluster_info(config: Kubeconfig, cluster: Entry) -> dict[str, Any]:
    """Return the cluster in the form in which an exec plugin receives it."""
    return {
        "server": config.text(cluster, "server"),
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(config.pem(cluster, "certificate-authority")).decode(),
        "proxy-url": cluster.get("proxy-url"),
    }


def _persist_tokens(path: Path, user: str, tokens: dict[str, str]) -> None:
    """Write refreshed tokens to the kubeconfig file that contains the user."""
    from sampan.machinery.client.exec_credentials import CredentialError
    from sampan.machinery.pki.private_files import write_private

    document = dict(read_document(path))
    for item in document.get("users") or ():
        if item.get("name") == user:
            item["user"]["auth-provider"]["config"] = tokens
    try:
        write_private(path, yaml.safe_dump(document).encode())
    except OSError as error:
        raise CredentialError(f"could not persist new tokens: {error.strerror or error}") from error


def _impersonation(config: Kubeconfig, user: Entry) -> list[tuple[str, str]]:
    pairs = [("Impersonate-User", config.text(user, "as")), ("Impersonate-Uid", config.text(user, "as-uid"))]
    pairs += [("Impersonate-Group", group) for group in _texts(config, user, "as-groups")]
    extra = _object(user.get("as-user-extra") or {}, "as-user-extra")
    for key in extra:
        pairs += [(f"Impersonate-Extra-{quote(str(key), safe='')}", value) for value in _texts(config, extra, key)]
    return [(key, value) for key, value in pairs if value]


def _texts(config: Kubeconfig, entry: Entry, key: str) -> list[str]:
    values = entry.get(key) or []
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        raise KubeconfigError(f"{config.source}: {key} must be a list of strings")
    return [str(value) for value in values]
