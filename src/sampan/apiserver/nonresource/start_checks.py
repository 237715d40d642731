"""The steps of the start of the server as health checks, under the names of the post-start hooks of kube-apiserver.

Clients wait for some of these names, and monitoring excludes some. The server takes fewer steps than kube-apiserver has
hooks, so several names stand for one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from sampan.machinery.telemetry.health import HealthCheck


class StartStep(Enum):
    LISTENING = auto()
    """The server accepts connections; admission, flow control and metrics are in place."""
    INFORMERS = auto()
    """The caches of the authorizer are filled."""
    SYSTEM_OBJECTS = auto()
    """The system namespaces, priority classes, ServiceCIDR and the service `kubernetes` with its endpoints exist."""
    TRUST = auto()
    """The CAs for client certificates are published."""
    FLOW_CONTROL = auto()
    """The default FlowSchemas and PriorityLevelConfigurations exist."""
    ROLES = auto()
    """The default roles and bindings exist."""
    ALLOCATION_REPAIR = auto()
    """The check of allocated cluster IPs and node ports is running."""
    AGGREGATION = auto()
    """The controllers of APIServices are running."""
    REGISTRATION = auto()
    """Every group version of this server has its APIService."""
    DEFINITIONS = auto()
    """The existing CustomResourceDefinitions are served."""
    IDENTITY = auto()
    """The lease of this server is being renewed."""


_HOOK = "poststarthook/"
_HOOKS: Sequence[tuple[str, StartStep]] = (
    ("start-apiserver-admission-initializer", StartStep.LISTENING),
    ("generic-apiserver-start-informers", StartStep.INFORMERS),
    ("priority-and-fairness-config-consumer", StartStep.FLOW_CONTROL),
    ("priority-and-fairness-filter", StartStep.LISTENING),
    ("storage-object-count-tracker-hook", StartStep.LISTENING),
    ("start-apiextensions-informers", StartStep.DEFINITIONS),
    ("start-apiextensions-controllers", StartStep.DEFINITIONS),
    ("crd-informer-synced", StartStep.DEFINITIONS),
    ("start-system-namespaces-controller", StartStep.SYSTEM_OBJECTS),
    ("peer-endpoint-reconciler-controller", StartStep.SYSTEM_OBJECTS),
    ("start-cluster-authentication-info-controller", StartStep.TRUST),
    ("start-kube-apiserver-identity-lease-controller", StartStep.IDENTITY),
    ("start-kube-apiserver-identity-lease-garbage-collector", StartStep.IDENTITY),
)
_LATER_HOOKS: Sequence[tuple[str, StartStep]] = (
    ("start-legacy-token-tracking-controller", StartStep.SYSTEM_OBJECTS),
    ("start-service-ip-repair-controllers", StartStep.ALLOCATION_REPAIR),
    ("rbac/bootstrap-roles", StartStep.ROLES),
    ("scheduling/bootstrap-system-priority-classes", StartStep.SYSTEM_OBJECTS),
    ("priority-and-fairness-config-producer", StartStep.FLOW_CONTROL),
    ("bootstrap-controller", StartStep.SYSTEM_OBJECTS),
    ("start-kubernetes-service-cidr-controller", StartStep.SYSTEM_OBJECTS),
    ("start-kube-aggregator-informers", StartStep.AGGREGATION),
    ("apiservice-status-local-available-controller", StartStep.AGGREGATION),
    ("apiservice-status-remote-available-controller", StartStep.AGGREGATION),
    ("apiservice-registration-controller", StartStep.AGGREGATION),
    ("apiservice-discovery-controller", StartStep.AGGREGATION),
    ("kube-apiserver-autoregistration", StartStep.AGGREGATION),
)
_LAST_HOOKS: Sequence[tuple[str, StartStep]] = (
    ("apiservice-openapi-controller", StartStep.AGGREGATION),
    ("apiservice-openapiv3-controller", StartStep.AGGREGATION),
)
_WITHOUT_FAIRNESS = {"priority-and-fairness-filter": "max-in-flight-filter"}
_FAIRNESS_HOOK = "priority-and-fairness-config-consumer"


class StartChecks:
    """`finish` marks a step as taken; the checks of the others fail."""

    def __init__(self, *, has_fairness: bool) -> None:
        """Without priority and fairness the filter has another name, and nothing consumes the configuration."""
        self._finished: set[StartStep] = set()
        self._has_fairness = has_fairness

    def finish(self, *steps: StartStep) -> None:
        self._finished.update(steps)

    def informer_sync(self) -> HealthCheck:
        return self._check("informer-sync", StartStep.INFORMERS)

    def hooks(self, storage_readiness: HealthCheck) -> Sequence[HealthCheck]:
        """Return the checks in the order of kube-apiserver. `storage_readiness` is one of them."""
        return (
            *self._hooks(_HOOKS),
            storage_readiness,
            *self._hooks(_LATER_HOOKS),
            self._check("autoregister-completion", StartStep.REGISTRATION),
            *self._hooks(_LAST_HOOKS),
        )

    def _hooks(self, hooks: Sequence[tuple[str, StartStep]]) -> list[HealthCheck]:
        if not self._has_fairness:
            hooks = [(_WITHOUT_FAIRNESS.get(name, name), step) for name, step in hooks if name != _FAIRNESS_HOOK]
        return [self._check(f"{_HOOK}{name}", step) for name, step in hooks]

    def _check(self, name: str, step: StartStep) -> HealthCheck:
        async def probe() -> None:
            if step not in self._finished:
                raise RuntimeError("not finished")

        return HealthCheck(name, probe, is_transient=True)
