"""The `Factory` of a command: the connection, the namespace and the resource types (`cmd/util.Factory`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sampan.kubectl.client.local_clusters import LocalClusters
    from sampan.kubectl.client.resource_types import ResourceTypes
    from sampan.kubectl.client.session import Session
    from sampan.kubectl.command_line.global_options import GlobalOptions
    from sampan.machinery.client.exec_credentials import PluginPolicy


class Factory:
    """Creates the session, the resource types and the namespace from the global flags of a command line. Nothing is
    opened or read before it is needed."""

    def __init__(
        self, options: GlobalOptions, clusters: LocalClusters, *, plugin_policy: PluginPolicy | None = None
    ) -> None:
        self.options = options
        self.clusters = clusters
        self._plugin_policy = plugin_policy

    @cached_property
    def session(self) -> Session:
        from sampan.kubectl.client.session import open_session

        session = open_session(self.options, self.clusters, plugin_policy=self._plugin_policy)
        if self.options.match_server_version:
            _check_version(session)
        return session

    def check_warnings(self) -> None:
        """Raise KubectlError if the server warned about something and --warnings-as-errors is set."""
        session: Session | None = self.__dict__.get("session")
        if session is None or not (self.options.warnings_as_errors and session.warnings):
            return
        from sampan.kubectl.errors import KubectlError

        count = len(session.warnings)
        raise KubectlError("1 warning received" if count == 1 else f"{count} warnings received")

    @cached_property
    def kinds(self) -> ResourceTypes:
        from sampan.kubectl.client.discovery_cache import DiscoveryCache
        from sampan.kubectl.client.resource_types import ResourceTypes

        cache = DiscoveryCache(directory=self.options.cache_dir, access=self.session.access)
        return ResourceTypes(self.session, cache)

    @property
    def namespace(self) -> str:
        """The namespace of --namespace, else of the kubeconfig context, else `default`."""
        return self.session.namespace

    @property
    def has_namespace_flag(self) -> bool:
        return bool(self.options.namespace)


def _check_version(session: Session) -> None:
    from sampan.api.kubernetes_version import GIT_VERSION
    from sampan.kubectl.client.session import ConnectionFailure
    from sampan.kubectl.errors import KubectlError

    try:
        version = session.get("/version", {"timeout": "32s"}).get("gitVersion")
    except ConnectionFailure as error:
        raise error.add_context("couldn't read version from server") from None
    if version != GIT_VERSION:
        raise KubectlError(f"server version ({version}) differs from client version ({GIT_VERSION})")
