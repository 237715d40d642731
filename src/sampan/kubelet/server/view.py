"""The interface between the kubelet and its server (`KubeletView`), the settings of the server, and its
error response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sampan.api.semantics.pods import find_container
from sampan.api.types.core_v1 import Container, EphemeralContainer, Pod
from sampan.kubelet.stats.collector import NodeStats
from sampan.machinery.telemetry.health import HealthMetrics
from sampan.runtimes.contract import Runtime


class KubeletView(Protocol):
    @property
    def node(self) -> str:
        """Name of the node."""

    @property
    def runtime(self) -> Runtime: ...

    def pods(self) -> Sequence[Pod]:
        """Return the pods of this node with their latest status, from the kubelet's state. Shared and read-only."""

    def find(self, namespace: str, name: str) -> Pod | None: ...

    def configuration(self) -> Mapping[str, Any]:
        """Return the effective KubeletConfiguration for /configz."""

    @property
    def health_metrics(self) -> HealthMetrics:
        """The results of the health checks of this kubelet, whichever port served them."""

    def sync_loop_error(self) -> str:
        """Return the error of the sync loop, or an empty string if it is healthy."""

    async def stats(self) -> NodeStats: ...

    def metrics_text(self) -> str:
        """Return the kubelet's metrics in Prometheus format."""

    def probe_metrics_text(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    has_debugging: bool = True
    """Whether to serve endpoints that access containers: --enable-debugging-handlers."""
    has_node_logs: bool = True
    has_profiling: bool = True
    node_logs: Path = Path("/var/log")


class ErrorResponse(Exception):
    """An error response with the status code and text of the Kubernetes kubelet."""

    def __init__(self, code: int, text: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.headers = code, text, headers or {}


def pod_of(view: KubeletView, namespace: str, name: str, uid: str = "") -> Pod:
    pod = view.find(namespace, name)
    if pod is None or (uid and pod.metadata.uid != uid):
        raise ErrorResponse(404, "pod does not exist" if pod is None else "pod not found")
    return pod


def spec_of(pod: Pod, container: str) -> Container | EphemeralContainer | None:
    return find_container(pod.spec, container)
