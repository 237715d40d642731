"""The description of a cluster that has become ready: the content of `running.json`, and the output of `sampan up`."""

from __future__ import annotations

import ipaddress
import os
import textwrap
import time

import click

from sampan import __version__
from sampan.api.addresses import join_host_port
from sampan.api.kubernetes_version import GIT_VERSION, MAJOR, MINOR_VERSION
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster
from sampan.cli.local_cluster.listen_addresses import join_address, pods_warning
from sampan.cli.local_cluster.rootless import OuterProcess
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import DNS, StoreConfig
from sampan.network.dns.upstreams import choose_upstreams

_WIDTH = 80
_RECALLED = "        (as before; --forget-flags uses the defaults)"


def describe_cluster(
    directory: ClusterDir, name: str, cluster: Assembly, nodes: str, outer: OuterProcess | None
) -> RunningCluster:
    """Describe a cluster that has just become ready."""
    server, config = cluster.server, cluster.server.config
    return RunningCluster(
        pid=outer.pid if outer is not None else os.getpid(),
        name=name,
        url=f"https://{join_host_port(_choose_url_host(config), server.secure_port)}" if server.secure_port else "",
        insecure_url=f"http://{join_host_port(config.insecure_bind_address, server.insecure_port)}"
        if server.insecure_port
        else "",
        listening=_list_endpoints(cluster),
        kubeconfig=str(directory.kubeconfig),
        components=list(cluster.config.components),
        started=time.time(),
        nodes=nodes,
        runtime_reason=cluster.config.nodes.about or cluster.config.nodes.note,
        join_address=join_address(config, server.secure_port) if outer is None else "",
        pod_cidrs=list(cluster.config.controller_settings.get("cluster_cidr") or ()),
        service_cidrs=config.service_cluster_ip_range.split(","),
        dns=_dns(cluster),
        pods_warning=pods_warning(config, cluster.config.nodes),
        store=_store_text(cluster.config.store),
        version=__version__,
        kubernetes_version=f"{MAJOR}.{config.feature_gates.level}",
    )


def emulation_text(version: str) -> str:
    """Return how the cluster differs in version from Sampan, empty if it does not."""
    return f"Kubernetes {version}, as {GIT_VERSION} emulates it" if version not in ("", MINOR_VERSION) else ""


def _store_text(store: StoreConfig) -> str:
    if store.etcd_servers:
        return f"etcd {','.join(store.etcd_servers)}"
    return "sqlite" if store.sqlite is not None else "memory"


def _dns(cluster: Assembly) -> str:
    """Return the addresses of the DNS server, and the resolvers to which it forwards queries for other names."""
    config = cluster.config
    if DNS not in config.components or not config.nodes.real_count:
        return ""
    upstreams = choose_upstreams(config.dns.forwarder.upstreams)
    return f"{', '.join(config.nodes.cluster_dns)} for {config.dns.zone.domain}, forwards to {upstreams}"


def _choose_url_host(config: ServerConfig) -> str:
    """Return the address in the URL of the API server: the loopback address, unless --bind-address excludes it."""
    bound = ipaddress.ip_address(config.bind_address)
    return "127.0.0.1" if bound.is_unspecified else str(bound)


def _list_endpoints(cluster: Assembly) -> list[str]:
    """Return the addresses and ports on which the cluster listens."""
    server, config = cluster.server, cluster.server.config
    endpoints = []
    if server.secure_port:
        addresses = (config.bind_address, *config.other_bind_addresses)
        endpoints += [join_host_port(address, server.secure_port) for address in addresses]
    if server.insecure_port:
        endpoints.append(join_host_port(config.insecure_bind_address, server.insecure_port))
    kubelets = [kubelet.config for kubelet in cluster.real_nodes.kubelets] if cluster.real_nodes is not None else []
    has_own_networks, shared = bool(cluster.config.nodes.node_cidrs), cluster.config.kubelet_address
    endpoints += [join_host_port(node.node_ips[0] if has_own_networks else shared, node.port) for node in kubelets]
    others = cluster.real_nodes.listen_addresses if cluster.real_nodes is not None else []
    return endpoints + [join_host_port(address, port) for address, port in others]


def ready_text(note: RunningCluster, took_s: float) -> str:
    return f"{note.name} is ready at {note.url or note.insecure_url} ({took_s:.2f} s, pid {note.pid})"


def print_ready(note: RunningCluster, took_s: float) -> None:
    """Print where the cluster is, which components run, and commands to type next. Lines have at most 80 columns unless
    the path of the kubeconfig is longer."""
    click.echo(ready_text(note, took_s))
    rows = [
        ("also", f"{note.insecure_url}, without authentication" if note.insecure_url and note.url else ""),
        ("listen", ", ".join(note.listening)),
        ("level", emulation_text(note.kubernetes_version)),
        ("warn", note.pods_warning),
        ("nodes", note.nodes),
        ("dns", note.dns),
        (
            "flags",
            f"{note.recalled_flags}{_RECALLED}" * bool(note.recalled_flags),
        ),
    ]
    for title, text in rows:
        for line in _wrap_beside_title(title, text) if text else ():
            click.echo(line)
    click.echo(f"  use    export KUBECONFIG={note.kubeconfig}")  # do not wrap a line that users copy
    click.echo("  try    kubectl get namespaces        (or: sampan kubectl get namespaces)")


def _wrap_beside_title(title: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {title:<6} ",
        subsequent_indent=" " * 9,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
