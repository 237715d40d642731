"""The server, the credentials and the namespace of a command, from flags, kubeconfig files or a running Sampan cluster
(`client-go/tools/clientcmd`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sampan.cli.kubectl import kubeconfig_check
from sampan.cli.kubectl.errors import KubectlError, PlainError
from sampan.cli.kubectl.flag_parser import quoted
from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access

DEFAULT_SERVER = "http://localhost:8080"


def load_access(options: Mapping[str, Any]) -> tuple[Access, str]:
    """Return the access to the cluster and the namespace. Flags override single values of the kubeconfig."""
    paths = kubeconfig_paths(options)
    if options.get("kubeconfig") and not paths[0].exists():
        raise KubectlError(f"stat {options['kubeconfig']}: no such file or directory")
    config = _read(paths)
    try:
        context, cluster, user = _entries(config, options)
        kubeconfig_check.check_entries(
            cluster,
            config.override("clusters", cluster, _cluster_flags(config, options, cluster)),
            user,
            config.override("users", user, _user_flags(options)),
        )
        access = config.access(cluster, user)
    except kubeconfig.KubeconfigError as error:
        raise KubectlError(str(error).removeprefix(f"{config.source}: ")) from None
    _complete(access, options, user)
    return access, str(options.get("namespace") or context.get("namespace") or "default")


def _read(paths: list[Path]) -> kubeconfig.Kubeconfig:
    config = kubeconfig.Kubeconfig(", ".join(map(str, paths)))
    for path in paths:
        if path.exists():
            config.take(path, kubeconfig_check.read_document(path))
    return config


def _entries(config: kubeconfig.Kubeconfig, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], str, str]:
    """Return the context, and the names of its cluster and user. They are empty without any context."""
    name = str(options.get("context_name") or config.current)
    if name and not config.has("contexts", name):
        raise PlainError(f"Error in configuration: context was not found for specified context: {name}")
    context = config.entry("contexts", "context", name) if name else {}
    cluster = str(options.get("kubeconfig_cluster") or context.get("cluster") or "")
    user = str(options.get("kubeconfig_user") or context.get("user") or "")
    if user and not config.has("users", user):
        raise KubectlError(f"auth info {quoted(user)} does not exist")
    if cluster and not config.has("clusters", cluster):
        raise KubectlError(f"no server found for cluster {quoted(cluster)}")
    return context, cluster, user


def _cluster_flags(config: kubeconfig.Kubeconfig, options: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Return the fields of the cluster that flags set. A CA, or none at all, replaces what the kubeconfig says about
    the verification of the server."""
    has_server = bool(cluster and config.entry("clusters", "cluster", cluster).get("server"))
    values: dict[str, Any] = {} if has_server else {"server": DEFAULT_SERVER}
    if options.get("server"):
        values |= {"server": str(options["server"]), "tls-server-name": ""}
    if options.get("tls_server_name"):
        values["tls-server-name"] = str(options["tls_server_name"])
    if options.get("insecure") or options.get("certificate_authority"):
        values |= {
            "insecure-skip-tls-verify": bool(options.get("insecure")),
            "certificate-authority": str(options.get("certificate_authority") or ""),
            "certificate-authority-data": "",
        }
    return values


def _user_flags(options: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if options.get("token"):
        values |= {"token": str(options["token"]), "tokenFile": ""}
    for flag, key in (("username", "username"), ("password", "password")):
        if options.get(flag):
            values[key] = str(options[flag])
    for flag, key in (("client_certificate", "client-certificate"), ("client_key", "client-key")):
        if options.get(flag):
            values |= {key: str(options[flag]), f"{key}-data": ""}
    return values


def kubeconfig_paths(options: Mapping[str, Any]) -> list[Path]:
    """Return the kubeconfig files: of --kubeconfig, of --name, of $KUBECONFIG, the one in the home directory, or that
    of the only running cluster of this user."""
    if options.get("kubeconfig"):
        return [Path(options["kubeconfig"])]
    if options.get("cluster_name"):
        return [_cluster_kubeconfig(str(options["cluster_name"]))]
    paths = kubeconfig.default_paths()
    if os.environ.get("KUBECONFIG") or any(path.exists() for path in paths) or options.get("server"):
        return paths
    return _only_running() or paths


def _cluster_kubeconfig(name: str) -> Path:
    from sampan.cli.local_cluster.cluster_dir import cluster_dir

    path = cluster_dir(None, name).kubeconfig
    if not path.exists():
        raise KubectlError(f"--name: there is no cluster {name!r}; `sampan status` lists the clusters")
    return path


def _only_running() -> list[Path]:
    """Return the kubeconfig of the only cluster that has one; the one named sampan comes first among several."""
    from sampan.cli.local_cluster.cluster_dir import DEFAULT_NAME, known_clusters

    clusters = [cluster for cluster in known_clusters() if not cluster.is_unreadable and cluster.kubeconfig.exists()]
    running = [cluster for cluster in clusters if cluster.read_note() is not None] or clusters
    if len(running) > 1:
        default = [cluster for cluster in running if cluster.path.name == DEFAULT_NAME]
        if not default:
            names = ", ".join(cluster.path.name for cluster in running)
            raise KubectlError(f"several clusters are running: {names}; choose one with --name")
        running = default
    return [cluster.kubeconfig for cluster in running]


def _complete(access: Access, options: Mapping[str, Any], user: str) -> None:
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
    access.impersonation = _impersonation(options, user) or access.impersonation


def _impersonation(options: Mapping[str, Any], authenticated: str) -> list[tuple[str, str]]:
    user = str(options.get("impersonated_user") or "")
    groups, extra = options.get("impersonated_groups") or (), options.get("impersonated_extra") or ()
    uid = str(options.get("impersonated_uid") or "")
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
