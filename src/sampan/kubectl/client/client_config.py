"""The server, the credentials and the namespace of a command, from flags, kubeconfig files or a running Sampan cluster
(`client-go/tools/clientcmd`), and the checks of kubeconfig files with the errors of kubectl (`validation.go`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sampan.kubectl.client.local_clusters import DEFAULT_SERVER, LocalClusters
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.global_options import GlobalOptions
from sampan.kubectl.errors import KubectlError, PlainError
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access


def load_access(options: GlobalOptions, clusters: LocalClusters) -> tuple[Access, str]:
    """Return the access to the cluster and the namespace. Flags override single values of the kubeconfig."""
    paths = kubeconfig_paths(options, clusters)
    if options.kubeconfig and not paths[0].exists():
        raise KubectlError(f"stat {options.kubeconfig}: no such file or directory")
    config = _read(paths)
    try:
        context, cluster, user = _entries(config, options)
        check_entries(
            cluster,
            config.override("clusters", cluster, _cluster_flags(config, options, cluster)),
            user,
            config.override("users", user, _user_flags(options)),
        )
        access = config.access(cluster, user)
    except kubeconfig.KubeconfigError as error:
        raise KubectlError(str(error).removeprefix(f"{config.source}: ")) from None
    _complete(access, options, user)
    return access, str(options.namespace or context.get("namespace") or "default")


def _read(paths: list[Path]) -> kubeconfig.Kubeconfig:
    config = kubeconfig.Kubeconfig(", ".join(map(str, paths)))
    for path in paths:
        if path.exists():
            config.take(path, read_document(path))
    return config


def _entries(config: kubeconfig.Kubeconfig, options: GlobalOptions) -> tuple[Mapping[str, Any], str, str]:
    """Return the context, and the names of its cluster and user; all are empty if there is no context."""
    name = str(options.context_name or config.current)
    if name and not config.has("contexts", name):
        raise PlainError(f"Error in configuration: context was not found for specified context: {name}")
    context = config.entry("contexts", "context", name) if name else {}
    cluster = str(options.kubeconfig_cluster or context.get("cluster") or "")
    user = str(options.kubeconfig_user or context.get("user") or "")
    if user and not config.has("users", user):
        raise KubectlError(f"auth info {quote_text(user)} does not exist")
    if cluster and not config.has("clusters", cluster):
        raise KubectlError(f"no server found for cluster {quote_text(cluster)}")
    return context, cluster, user


def _cluster_flags(config: kubeconfig.Kubeconfig, options: GlobalOptions, cluster: str) -> dict[str, Any]:
    """Return the fields of the cluster entry that flags set. --certificate-authority and --insecure-skip-tls-verify
    replace all fields of the kubeconfig about the verification of the server."""
    has_server = bool(cluster and config.entry("clusters", "cluster", cluster).get("server"))
    values: dict[str, Any] = {} if has_server else {"server": DEFAULT_SERVER}
    if options.server:
        values |= {"server": options.server, "tls-server-name": ""}
    if options.tls_server_name:
        values["tls-server-name"] = options.tls_server_name
    if options.insecure or options.certificate_authority:
        values |= {
            "insecure-skip-tls-verify": options.insecure,
            "certificate-authority": options.certificate_authority,
            "certificate-authority-data": "",
        }
    return values


def _user_flags(options: GlobalOptions) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if options.token:
        values |= {"token": options.token, "tokenFile": ""}
    for key, text in (("username", options.username), ("password", options.password)):
        if text:
            values[key] = text
    for key, path in (("client-certificate", options.client_certificate), ("client-key", options.client_key)):
        if path:
            values |= {key: path, f"{key}-data": ""}
    return values


def kubeconfig_paths(options: GlobalOptions, clusters: LocalClusters) -> list[Path]:
    """Return the paths of the kubeconfig files: those of --kubeconfig, of --name, of $KUBECONFIG, the one in the home
    directory, or that of the only cluster."""
    if options.kubeconfig:
        return [Path(options.kubeconfig)]
    if options.cluster_name:
        return [clusters.kubeconfig(options.cluster_name)]
    paths = kubeconfig.default_paths()
    if os.environ.get("KUBECONFIG") or any(path.exists() for path in paths) or options.server:
        return paths
    path = clusters.only_kubeconfig()
    return paths if path is None else [path]


def _complete(access: Access, options: GlobalOptions, user: str) -> None:
    if "://" not in access.server:
        access.server = f"http://{access.server}"
    if access.is_insecure and access.ca_pem:
        raise KubectlError("specifying a root certificates file with the insecure flag is not allowed")
    if access.ca_pem and b"-----BEGIN" not in access.ca_pem:
        raise KubectlError("unable to load root certificates: unable to parse bytes as PEM block")
    if access.client_cert_pem and b"-----BEGIN" not in access.client_cert_pem:
        raise KubectlError("tls: failed to find any PEM data in certificate input")
    if access.token_file is not None and not access.token_file.exists():
        raise KubectlError(f"open {access.token_file}: no such file or directory")
    access.proxy_url = options.proxy_url or access.proxy_url
    access.impersonation = _impersonation(options, user) or access.impersonation


def _impersonation(options: GlobalOptions, authenticated: str) -> list[tuple[str, str]]:
    user = options.impersonated_user
    groups, extra = options.impersonated_groups, options.impersonated_extra
    uid = options.impersonated_uid
    if not user:
        if groups or extra or uid:
            raise KubectlError(f"requesting uid, groups or user-extra for {authenticated} without impersonating a user")
        return []
    headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
    headers += [("Impersonate-Uid", uid)] if uid else []
    for pair in extra:
        key, _, value = pair.partition("=")
        headers.append((f"Impersonate-Extra-{quote(key, safe='')}", value))
    return headers


Entry = Mapping[str, Any]

_TEXTS = {
    "clusters": ("server", "tls-server-name", "certificate-authority", "certificate-authority-data", "proxy-url"),
    "users": (
        "token",
        "tokenFile",
        "username",
        "password",
        "client-certificate",
        "client-certificate-data",
        "client-key",
    ),
    "contexts": ("cluster", "user", "namespace"),
}
_STRUCTS = {"clusters": ("Cluster", "cluster"), "users": ("AuthInfo", "user"), "contexts": ("Context", "context")}
_JSON_TYPES = {bool: "bool", int: "number", float: "number", list: "array", dict: "object", str: "string"}
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=\r\n]")
_MODES = ("Never", "IfAvailable", "Always")


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the content of a kubeconfig file. Raise KubectlError if it is not one, or has a value of a wrong type."""
    try:
        content = kubeconfig.read_document(path)
        reason = _wrong_value(content)
    except kubeconfig.KubeconfigError:
        content, reason = {}, _syntax_error(path)
    if reason:
        raise KubectlError(f'error loading config file "{path}": {reason}')
    return content


def _syntax_error(path: Path) -> str:
    """Return why a file cannot be read, in the words of kubectl."""
    from sampan.api.codec import yaml
    from sampan.machinery.client.exec_credentials import kind_error

    try:
        value = yaml.decode(path.read_bytes()).value
    except OSError as error:
        return f"open {path}: {(error.strerror or '').lower()}"
    except yaml.YamlError as error:
        return str(error)
    return kind_error(value)


def _wrong_value(content: Mapping[str, Any]) -> str:
    version, kind = content.get("apiVersion") or "v1", content.get("kind") or "Config"
    if content and (version, kind) != ("v1", "Config"):
        return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
    for field, value in _text_fields(content):
        if value is not None and not isinstance(value, str):
            kind = _JSON_TYPES.get(type(value), "value")
            return f"json: cannot unmarshal {kind} into Go struct field {field} of type string"
        if value and field.endswith("-data") and (match := _NOT_BASE64.search(value)) is not None:
            return f"illegal base64 data at input byte {match.start()}"
    return ""


def _text_fields(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "Config.current-context", content.get("current-context")
    for section, (struct, inner) in _STRUCTS.items():
        items = content.get(section)
        for item in items if isinstance(items, list) else ():
            entry = item.get(inner) if isinstance(item, dict) else None
            if isinstance(entry, dict):
                yield from ((f"{struct}.{section}.{inner}.{key}", entry.get(key)) for key in _TEXTS[section])
                plugin = entry.get("exec")
                if isinstance(plugin, dict):
                    keys = ("command", "apiVersion", "installHint", "interactiveMode")
                    yield from ((f"ExecConfig.users.user.exec.{key}", plugin.get(key)) for key in keys)


def check_entries(cluster_name: str, cluster: Entry, user_name: str, user: Entry) -> None:
    """Raise an error that lists everything that is wrong with a cluster and a user."""
    errors = [*_user_errors(user_name, user), *_cluster_errors(cluster_name, cluster)]
    if len(errors) == 1:
        raise KubectlError(errors[0])
    if errors:
        raise PlainError("Error in configuration: \n" + "\n".join(f"* {text}" for text in errors))


def _cluster_errors(name: str, cluster: Entry) -> Iterator[str]:
    if not cluster.get("server"):
        yield f"no server found for cluster {quote_text(name)}" if name else "default cluster has no server defined"
    file, data = cluster.get("certificate-authority"), cluster.get("certificate-authority-data")
    if file and data:
        yield (
            f"certificate-authority-data and certificate-authority are both specified for {name}. "
            "certificate-authority-data will override."
        )
    yield from _unreadable(file, "certificate-authority", name)


def _user_errors(name: str, user: Entry) -> Iterator[str]:
    methods = ["token"] if user.get("token") else []
    methods += ["basicAuth"] if user.get("username") or user.get("password") else []
    yield from _certificate_errors(name, user)
    if isinstance(user.get("exec"), dict):
        yield from _exec_errors(name, user, user["exec"])
    if len(methods) > 1:
        listed = " ".join(methods)
        yield f"more than one authentication method found for {name}; found [{listed}], only one is allowed"
    if (user.get("as-uid") or user.get("as-groups") or user.get("as-user-extra")) and not user.get("as"):
        yield f"requesting uid, groups or user-extra for {name} without impersonating a user"


def _certificate_errors(name: str, user: Entry) -> Iterator[str]:
    file, data = user.get("client-certificate"), user.get("client-certificate-data")
    key, key_data = user.get("client-key"), user.get("client-key-data")
    if not (file or data):
        return
    if file and data:
        yield f"client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
    if key and key_data:
        yield f"client-key-data and client-key are both specified for {name}; client-key-data will override"
    if not (key or key_data):
        yield (
            f"client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
        )
    yield from _unreadable(file, "client-cert", name)
    yield from _unreadable(key, "client-key", name)


def _exec_errors(name: str, user: Entry, plugin: Entry) -> Iterator[str]:
    suffix = f"for {name} to use exec authentication plugin"
    if user.get("auth-provider"):
        yield f"authProvider cannot be provided in combination with an exec plugin for {name}"
    if not plugin.get("command"):
        yield f"command must be specified {suffix}"
    if not plugin.get("apiVersion"):
        yield f"apiVersion must be specified {suffix}"
    environment = plugin.get("env")
    for item in environment if isinstance(environment, list) else ():
        if not (isinstance(item, dict) and item.get("name")):
            yield f"env variable name must be specified {suffix}"
    mode = plugin.get("interactiveMode")
    if not mode and str(plugin.get("apiVersion") or "").endswith("/v1"):
        yield f"interactiveMode must be specified {suffix}"
    elif mode and mode not in _MODES:
        yield f"invalid interactiveMode for {name}: {quote_text(str(mode))}"


def _unreadable(path: str | None, title: str, name: str) -> Iterator[str]:
    if not path:
        return
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = f"open {path}: {(error.strerror or '').lower()}"
        yield f"unable to read {title} {path} for {name} due to {reason}"
