"""Evaluation of each metric in an autoscaler's spec."""

from collections.abc import Awaitable
from dataclasses import dataclass

from sampan.api.go_compat import gotext
from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import EVERYTHING, Selector
from sampan.api.types.autoscaling_v2 import (
    ContainerResourceMetricSource,
    ContainerResourceMetricStatus,
    ExternalMetricSource,
    ExternalMetricStatus,
    MetricIdentifier,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricSource,
    ObjectMetricStatus,
    PodsMetricSource,
    PodsMetricStatus,
    ResourceMetricSource,
    ResourceMetricStatus,
)
from sampan.api.values import quantity
from sampan.controllers.autoscaling import replicas as r
from sampan.controllers.autoscaling.metrics import MetricsSource, MetricsUnavailable
from sampan.controllers.autoscaling.replicas import MEMORY, ReplicaEstimate, ScalingInputs


@dataclass(frozen=True, slots=True)
class ReplicaProposal:
    replicas: int
    metric: str
    """Description of the metric for events and conditions."""
    status: MetricStatus


class MetricFailure(Exception):
    """A metric could not be evaluated.

    The summary event shows the exception's message. The event of the metric itself and the condition show `reason` and
    `detail`.
    """

    def __init__(self, message: str, *, reason: str, detail: str) -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


class _PrefixedError(MetricsUnavailable):
    """An error whose message has a prefix in the summary event. The event of the metric and the condition show only
    `detail`, which is without the prefix."""

    def __init__(self, subject: str, detail: str) -> None:
        super().__init__(f"{subject}: {detail}" if subject else detail)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class MetricEvaluator:
    """Evaluates single metrics against a metrics source."""

    source: MetricsSource
    namespace: str
    pods: Selector
    situation: ScalingInputs

    async def propose(self, spec: MetricSpec) -> ReplicaProposal:
        """Return the proposal of one metric; raise MetricFailure if it cannot be evaluated."""
        question, reason, prefix = self._evaluation(spec)
        try:
            return await question
        except MetricsUnavailable as error:
            message = error.detail if isinstance(error, _PrefixedError) else str(error)
            raise MetricFailure(f"{prefix}: {error}", reason=reason, detail=message) from error

    def _evaluation(self, spec: MetricSpec) -> tuple[Awaitable[ReplicaProposal], str, str]:
        """Return the awaitable evaluation, and the reason and message prefix in case it fails."""
        if (resource := spec.resource) is not None:
            prefix = f"failed to get {resource.name} resource metric value"
            return self._propose_for_resource(resource), "FailedGetResourceMetric", prefix
        if (container := spec.containerResource) is not None:
            prefix = f"failed to get {container.container} container metric value"
            return self._propose_for_container(container), "FailedGetContainerResourceMetric", prefix
        if spec.pods is not None:
            return self._propose_for_pods(spec.pods), "FailedGetPodsMetric", "failed to get pods metric value"
        if spec.object is not None:
            return self._propose_for_object(spec.object), "FailedGetObjectMetric", "failed to get object metric value"
        if (external := spec.external) is not None:
            prefix = f"failed to get {external.metric.name} external metric value"
            return self._propose_for_external(external), "FailedGetExternalMetric", prefix
        message = f'unknown metric source type "{spec.type}"'
        raise MetricFailure(message, reason="InvalidMetricSourceType", detail=message)

    # -- resource metrics --------------------------------------------------------------------------------------------

    async def _propose_for_resource(self, source: ResourceMetricSource) -> ReplicaProposal:
        estimate = await self._estimate_resource(source.name, source.target, "")
        description = f"{source.name} resource"
        if estimate.utilization is not None:
            description += " utilization (percentage of request)"
        status = ResourceMetricStatus(name=source.name, current=_current(estimate, source.name))
        return ReplicaProposal(estimate.replicas, description, MetricStatus(type="Resource", resource=status))

    async def _propose_for_container(self, source: ContainerResourceMetricSource) -> ReplicaProposal:
        estimate = await self._estimate_resource(source.name, source.target, source.container)
        description = f"{source.name} resource"
        if estimate.utilization is not None:
            description = f"{source.name} container resource utilization (percentage of request)"
        status = ContainerResourceMetricStatus(
            name=source.name, container=source.container, current=_current(estimate, source.name)
        )
        return ReplicaProposal(
            estimate.replicas, description, MetricStatus(type="ContainerResource", containerResource=status)
        )

    async def _estimate_resource(self, resource: str, target: MetricTarget, container: str) -> ReplicaEstimate:
        if target.averageValue is None and target.averageUtilization is None:
            raise MetricsUnavailable(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) "
                "target was set"
            )
        kind = "usage" if target.averageValue is not None else "utilization"
        try:
            return await self._estimate_from_usage(resource, target, container)
        except MetricsUnavailable as error:
            raise MetricsUnavailable(f"failed to get {resource} {kind}: {error}") from None

    async def _estimate_from_usage(self, resource: str, target: MetricTarget, container: str) -> ReplicaEstimate:
        try:
            metrics = await self.source.get_resource_metric(resource, self.namespace, self.pods, container)
        except MetricsUnavailable as error:
            raise MetricsUnavailable(f"unable to get metrics for resource {resource}: {error}") from None
        if target.averageValue is not None:
            return r.estimate_by_average(self.situation, metrics, _milli(target.averageValue), resource)
        return r.estimate_by_utilization(self.situation, metrics, target.averageUtilization or 0, resource, container)

    # -- other metrics -----------------------------------------------------------------------------------------------

    async def _propose_for_pods(self, source: PodsMetricSource) -> ReplicaProposal:
        name = source.metric.name
        try:
            metrics = await self.source.get_pods_metric(name, self.namespace, self.pods, _selector(source.metric))
        except MetricsUnavailable as error:
            raise MetricsUnavailable(f"unable to get metric {name}: {error}") from None
        estimate = r.estimate_by_average(self.situation, metrics, _milli(source.target.averageValue))
        status = PodsMetricStatus(metric=source.metric, current=_average(estimate))
        return ReplicaProposal(estimate.replicas, f"pods metric {name}", MetricStatus(type="Pods", pods=status))

    async def _propose_for_object(self, source: ObjectMetricSource) -> ReplicaProposal:
        target, name, described = source.target, source.metric.name, source.describedObject
        per_pod = target.type == "AverageValue" and target.averageValue is not None
        if not per_pod and (target.type != "Value" or target.value is None):
            raise MetricsUnavailable(
                "invalid object metric source: neither a value target nor an average value target was set"
            )
        try:
            usage = await self.source.get_object_metric(name, self.namespace, described, _selector(source.metric))
        except MetricsUnavailable as error:
            message = f"unable to get metric {name} on {described.kind} {self.namespace}/{described.name}: {error}"
            raise _PrefixedError(f"failed to get {name} object metric" if per_pod else "", message) from None
        if per_pod:
            estimate = r.estimate_by_value_per_pod(self.situation, usage, _milli(target.averageValue))
            description, current = f"external metric {_format_metric(source.metric)}", _average(estimate)
        else:
            estimate = r.estimate_by_value(self.situation, usage, _milli(target.value))
            description, current = f"{described.kind} metric {name}", _value(estimate)
        status = ObjectMetricStatus(metric=source.metric, describedObject=described, current=current)
        return ReplicaProposal(estimate.replicas, description, MetricStatus(type="Object", object=status))

    async def _propose_for_external(self, source: ExternalMetricSource) -> ReplicaProposal:
        target, name = source.target, source.metric.name
        if target.averageValue is None and target.value is None:
            raise MetricsUnavailable(
                "invalid external metric source: neither a value target nor an average value target was set"
            )
        try:
            estimate = await self._estimate_from_external(source.metric, target)
        except MetricsUnavailable as error:
            subject = f"{name} external metric" if target.averageValue is not None else f"external metric {name}"
            raise _PrefixedError(f"failed to get {subject}", str(error)) from error
        current = _average(estimate) if target.averageValue is not None else _value(estimate)
        status = ExternalMetricStatus(metric=source.metric, current=current)
        description = f"external metric {_format_metric(source.metric)}"
        return ReplicaProposal(estimate.replicas, description, MetricStatus(type="External", external=status))

    async def _estimate_from_external(self, metric: MetricIdentifier, target: MetricTarget) -> ReplicaEstimate:
        try:
            usage = r.total(await self.source.get_external_metric(metric.name, self.namespace, _selector(metric)))
        except MetricsUnavailable as error:
            subject = f"{self.namespace}/{metric.name}/{gotext.label_selector(metric.selector)}"
            raise MetricsUnavailable(f"unable to get external metric {subject}: {error}") from None
        if target.averageValue is not None:
            return r.estimate_by_value_per_pod(self.situation, usage, _milli(target.averageValue))
        return r.estimate_by_value(self.situation, usage, _milli(target.value))


def _milli(text: str | None) -> int:
    return quantity.parse(text or "0").milli_value()


def _quantity(milli: int, resource: str = "") -> str:
    format = quantity.Format.BINARY_SI if resource == MEMORY else quantity.Format.DECIMAL_SI
    return str(quantity.Quantity(milli, scale=-3, format=format))


def _current(estimate: ReplicaEstimate, resource: str) -> MetricValueStatus:
    return MetricValueStatus(
        averageValue=_quantity(estimate.average, resource), averageUtilization=estimate.utilization
    )


def _average(estimate: ReplicaEstimate) -> MetricValueStatus:
    return MetricValueStatus(averageValue=_quantity(estimate.average))


def _value(estimate: ReplicaEstimate) -> MetricValueStatus:
    return MetricValueStatus(value=_quantity(estimate.average))


def _selector(metric: MetricIdentifier) -> Selector:
    """Return the selector of the metric's series; without one, all series match."""
    return selector_of(metric.selector) if metric.selector is not None else EVERYTHING


def _format_metric(metric: MetricIdentifier) -> str:
    return f"{metric.name}({gotext.label_selector(metric.selector)})"
