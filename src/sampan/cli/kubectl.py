"""`sampan kubectl`: the commands of kubectl, which also find the clusters of `sampan up` without a kubeconfig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.kubectl import RootGroup
from sampan.kubectl.command_line.global_options import GlobalOptions
from sampan.kubectl.errors import KubectlError

if TYPE_CHECKING:
    from pathlib import Path

    from sampan.cli.local_cluster.cluster_dir import RunningCluster
    from sampan.kubectl.client.session import Session


class SampanClusters:
    """The clusters that this user has started with Sampan."""

    def kubeconfig(self, name: str) -> Path:
        from sampan.cli.local_cluster.cluster_dir import find_cluster

        path = find_cluster(None, name).kubeconfig
        if not path.exists():
            raise KubectlError(f"--name: there is no cluster {name!r}; `sampan status` lists the clusters")
        return path

    def only_kubeconfig(self) -> Path | None:
        from sampan.cli.local_cluster.cluster_dir import DEFAULT_NAME, list_clusters

        clusters = [cluster for cluster in list_clusters() if not cluster.is_unreadable and cluster.kubeconfig.exists()]
        running = [cluster for cluster in clusters if cluster.read_note() is not None] or clusters
        if len(running) > 1:
            default = [cluster for cluster in running if cluster.name == DEFAULT_NAME]
            if not default:
                names = ", ".join(cluster.name for cluster in running)
                raise KubectlError(f"several clusters are running: {names}; choose one with --name")
            running = default
        return running[0].kubeconfig if running else None

    def list_running(self) -> Sequence[RunningCluster]:
        from sampan.cli.local_cluster.cluster_dir import list_clusters

        clusters = [cluster for cluster in list_clusters() if cluster.is_running]
        return [note for cluster in clusters if (note := cluster.read_note()) is not None]


def open_session(options: Mapping[str, Any]) -> Session:
    """Open a session for a command beside kubectl with the flags of `connection_options`."""
    from sampan.kubectl.client import session

    return session.open_session(GlobalOptions(**options), SampanClusters())


command = RootGroup(SampanClusters())
