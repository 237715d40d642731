"""The clusters of a pytest run: one for each set of arguments, started on first use and kept until the end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sampan.testing.cluster import Cluster
from sampan.testing.errors import UnsupportedByCluster
from sampan.testing.external_cluster import ExternalCluster

_NEEDS = frozenset({"level", "nodes"})
"""Arguments that say what a test needs, not how its cluster is made. An external cluster is assumed to meet these
needs."""


class ClusterPool:
    def __init__(self, *, kubeconfig: Path | None, context: str = "") -> None:
        """With a `kubeconfig` all tests use the cluster of that file."""
        self._kubeconfig, self._context = kubeconfig, context
        self._clusters: dict[str, Cluster] = {}
        self._external: ExternalCluster | None = None
        self._running = ExitStack()

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._running.close()

    def cluster(self, options: Mapping[str, Any], marked: Mapping[str, Any]) -> Cluster | ExternalCluster:
        """Return the cluster for the options of the test run, which the arguments of a test's marker override."""
        if self._kubeconfig is not None:
            return self._connect(marked, self._kubeconfig)
        merged = {**options, **marked}
        key = repr(sorted(merged.items()))
        if key not in self._clusters:
            self._clusters[key] = self._running.enter_context(Cluster(**merged))
            self._clusters[key].warm_up()
        return self._clusters[key]

    def _connect(self, marked: Mapping[str, Any], kubeconfig: Path) -> ExternalCluster:
        if unsupported := sorted(set(marked) - _NEEDS):
            raise UnsupportedByCluster(f"an external cluster cannot be started with {', '.join(unsupported)}")
        if self._external is None:
            self._external = self._running.enter_context(ExternalCluster(kubeconfig, context=self._context))
        return self._external
