"""The server, the credentials and the namespace of a command, from flags, kubeconfig files or a running Sampan cluster
(`client-go/tools/clientcmd`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
    access, namespace, cluster, user = Access(server=DEFAULT_SERVER), "", "", ""
    if any(path.exists() for path in paths):
        try:
            access, namespace, cluster, user = _from_files(kubeconfig.read(paths), options)
        except kubeconfig.KubeconfigError as error:
            raise KubectlError(str(error)) from None
    _override(access, options, cluster, user)
    return access, str(options.get("namespace") or namespace or "default")


def _from_files(config: kubeconfig.Kubeconfig, options: Mapping[str, Any]) -> tuple[Access, str, str, str]:
    """Return the access, the namespace and the names of cluster and user. Without any context the server is the
    default."""
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
    access = config.access(cluster, user) if cluster else Access(server=DEFAULT_SERVER)
    return access, str(context.get("namespace") or ""), cluster, user


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
    from sampan.cli.cluster_dir import cluster_dir

    path = cluster_dir(None, name).kubeconfig
    if not path.exists():
        raise KubectlError(f"--name: there is no cluster {name!r}; `sampan status` lists the clusters")
    return path


def _only_running() -> list[Path]:
    """Return the kubeconfig of the only cluster that has one; the one named sampan comes first among several."""
    from sampan.cli.cluster_dir import DEFAULT_NAME, known_clusters

    clusters = [cluster for cluster in known_clusters() if not cluster.is_unreadable and cluster.kubeconfig.exists()]
    running = [cluster for cluster in clusters if cluster.read_note() is not None] or clusters
    if len(running) > 1:
        default = [cluster for cluster in running if cluster.path.name == DEFAULT_NAME]
        if not default:
            names = ", ".join(cluster.path.name for cluster in running)
            raise KubectlError(f"several clusters are running: {names}; choose one with --name")
        running = default
    return [cluster.kubeconfig for cluster in running]


def _override(access: Access, options: Mapping[str, Any], cluster: str, user: str) -> None:
    access.server = str(options.get("server") or access.server)
    if "://" not in access.server:
        access.server = f"http://{access.server}"
    if options.get("token"):
        access.token, access.token_file = str(options["token"]), None
    access.username = str(options.get("username") or access.username)
    access.password = str(options.get("password") or access.password)
    access.is_insecure |= bool(options.get("insecure"))
    access.tls_server_name = str(options.get("tls_server_name") or access.tls_server_name)
    access.ca_pem = _file(options, "certificate_authority", "certificate-authority", cluster) or access.ca_pem
    access.client_cert_pem = _file(options, "client_certificate", "client-cert", user) or access.client_cert_pem
    access.client_key_pem = _file(options, "client_key", "client-key", user) or access.client_key_pem
    access.impersonation = _impersonation(options, user) or access.impersonation


def _file(options: Mapping[str, Any], name: str, title: str, owner: str) -> bytes:
    """Return the content of the file that a flag names; an error names the entry of the kubeconfig that it is for."""
    path = str(options.get(name) or "")
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f"open {path}: {(error.strerror or '').lower()}"
        raise KubectlError(f"unable to read {title} {path} for {owner} due to {reason}") from None


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
