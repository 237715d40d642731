"""The Sampan clusters of this user on this machine, which a command may use without a kubeconfig."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from sampan.machinery.cli_errors import CliError
from sampan.machinery.client.kubeconfig import default_paths

DEFAULT_SERVER = "http://localhost:8080"
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_NO_CLUSTER = "\nThere is no kubeconfig, and none of your Sampan clusters is running: `sampan up` starts one."


class LocalCluster(Protocol):
    """A running cluster: its name, and its secure and insecure URLs."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def insecure_url(self) -> str: ...


class LocalClusters(Protocol):
    """Finds the clusters. The commands of Sampan pass an implementation to kubectl."""

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of the cluster of a name. Raise KubectlError if there is no such cluster."""

    def only_kubeconfig(self) -> Path | None:
        """Return the kubeconfig of the only running cluster, or of the only cluster if none is running. Of several,
        choose the one with the default name; raise KubectlError if none has it. Return None without a cluster."""

    def list_running(self) -> Sequence[LocalCluster]: ...


def connection_hint(clusters: LocalClusters, server: str) -> str:
    """Return a hint at the running clusters of this user, for a server on this machine that does not answer."""
    if urlsplit(server).hostname not in _LOOPBACK_HOSTS:
        return ""
    try:
        running = clusters.list_running()
    except (CliError, OSError):
        return ""
    has_kubeconfig = any(path.exists() for path in default_paths())
    if server == DEFAULT_SERVER and not running:
        return "" if has_kubeconfig else _NO_CLUSTER
    if not running or server in [url for cluster in running for url in (cluster.url, cluster.insecure_url)]:
        return ""
    names = ", ".join(sorted(cluster.name for cluster in running))
    is_without = server == DEFAULT_SERVER and not has_kubeconfig
    cause = "There is no kubeconfig" if is_without else "The kubeconfig names no cluster that runs"
    return f"\n{cause}. Your running Sampan clusters: {names}; --name NAME uses one of them."
