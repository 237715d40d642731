"""Descriptions of workloads: deployments, replica sets, stateful sets, daemon sets, jobs and their autoscalers."""

from __future__ import annotations

from typing import Any

from sampan.api.values import times
from sampan.api.values.ages import format_age
from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.layout import (
    NONE,
    UNKNOWN,
    UNSET,
    Lines,
    Value,
    conditions,
    controller_lines,
    controller_of,
    format_labels,
    go_text,
    heading,
    items,
    label_lines,
    meta,
    part,
    selector_or_none,
    selector_text,
    time_text,
    true_or_false,
)
from sampan.kubectl.describers.pods import pod_template
from sampan.kubectl.describers.volumes import storage_class_of
from sampan.kubectl.errors import ServerError

_INDEXES = 50
_HASH = "pod-template-hash"


def describe_replication_controller(obj: Value, view: ClusterView) -> Lines:
    spec = part(obj, "spec")
    selector = spec.get("selector") or {}
    yield from heading(obj, f"Selector:\t{format_labels(selector)}")
    yield _replicas(obj)
    yield f"Pods Status:\t{view.phases(obj, selector_text({'matchLabels': selector}))}"
    yield from pod_template(spec.get("template"))
    yield from conditions(obj)
    yield from view.events(obj, kind="ReplicationController")


def _creation_time(obj: Value) -> str:
    return f"CreationTimestamp:\t{time_text(meta(obj).get('creationTimestamp'))}"


def _replicas(obj: Value) -> str:
    current, desired = part(obj, "status").get("replicas", 0), part(obj, "spec").get("replicas", 0)
    return f"Replicas:\t{current} current / {desired} desired"


def describe_replica_set(obj: Value, view: ClusterView) -> Lines:
    spec = part(obj, "spec")
    yield from heading(obj, f"Selector:\t{selector_or_none(spec.get('selector'))}")
    yield from controller_lines(obj)
    yield _replicas(obj)
    try:
        pods = view.phases(obj, selector_text(spec.get("selector")))
    except ServerError as error:
        pods = f"error in fetching pods: {error.error.message}"
    yield f"Pods Status:\t{pods}"
    yield from pod_template(spec.get("template"))
    yield from conditions(obj)
    yield from view.events(obj, kind="ReplicaSet")


def describe_deployment(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    yield from heading(obj, _creation_time(obj))
    yield f"Selector:\t{selector_text(spec.get('selector'))}"
    yield (
        f"Replicas:\t{spec.get('replicas', 0)} desired | {status.get('updatedReplicas', 0)} updated | "
        f"{status.get('replicas', 0)} total | {status.get('availableReplicas', 0)} available | "
        f"{status.get('unavailableReplicas', 0)} unavailable"
    )
    yield f"StrategyType:\t{part(spec, 'strategy').get('type', '')}"
    yield f"MinReadySeconds:\t{spec.get('minReadySeconds', 0)}"
    if rolling := part(spec, "strategy").get("rollingUpdate"):
        yield (
            f"RollingUpdateStrategy:\t{rolling.get('maxUnavailable', '<nil>')} max unavailable, "
            f"{rolling.get('maxSurge', '<nil>')} max surge"
        )
    yield from pod_template(spec.get("template"))
    yield from conditions(obj)
    old, new = _replica_sets(obj, view)
    if old or new:
        yield f"OldReplicaSets:\t{_replica_set_texts(old)}"
        yield f"NewReplicaSet:\t{_replica_set_texts(new)}"
    yield from view.events(obj, kind="Deployment")


def _replica_sets(obj: Value, view: ClusterView) -> tuple[list[Value], list[Value]]:
    """Return the old replica sets of a deployment and the one with its current template."""
    path = f"/apis/apps/v1/namespaces/{meta(obj).get('namespace')}/replicasets"
    try:
        listed = view.list_objects(path, labelSelector=selector_text(part(obj, "spec").get("selector")))
    except ServerError:
        return [], []
    uid = meta(obj).get("uid")
    owned = [entry for entry in listed if (owner := controller_of(entry)) is not None and owner.get("uid") == uid]
    owned.sort(key=lambda entry: (meta(entry).get("creationTimestamp", ""), meta(entry).get("name", "")))
    current = next((entry for entry in owned if _template(entry) == _template(obj)), None)
    return [entry for entry in owned if entry is not current], [current] if current is not None else []


def _template(obj: Value) -> Any:
    template = part(obj, "spec", "template")
    metadata = {key: value for key, value in part(template, "metadata").items() if key != "creationTimestamp"}
    pod_labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    return {**template, "metadata": {**metadata, "labels": pod_labels}}


def _replica_set_texts(replica_sets: list[Value]) -> str:
    return (
        ", ".join(
            f"{meta(entry).get('name')} ({part(entry, 'status').get('replicas', 0)}/"
            f"{part(entry, 'spec').get('replicas', 0)} replicas created)"
            for entry in replica_sets
        )
        or NONE
    )


def describe_stateful_set(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    strategy = part(spec, "updateStrategy")
    yield from heading(obj, _creation_time(obj), f"Selector:\t{selector_text(spec.get('selector'))}")
    if spec.get("serviceName"):
        yield f"Service Name:\t{spec['serviceName']}"
    if spec.get("podManagementPolicy"):
        yield f"Pod Management Policy:\t{spec['podManagementPolicy']}"
    yield f"Replicas:\t{spec.get('replicas', 0)} desired | {status.get('replicas', 0)} total"
    yield f"Update Strategy:\t{strategy.get('type', '')}"
    rolling = part(strategy, "rollingUpdate")
    if rolling.get("partition") is not None:
        yield f"  Partition:\t{rolling['partition']}"
        if rolling.get("maxUnavailable") is not None:
            yield f"  MaxUnavailable:\t{rolling['maxUnavailable']}"
    if (retention := spec.get("persistentVolumeClaimRetentionPolicy")) is not None:
        yield "Persistent Volume Claim Retention Policy:"
        yield f"  WhenDeleted:\t{retention.get('whenDeleted', '')}"
        yield f"  WhenScaled:\t{retention.get('whenScaled', '')}"
    yield f"Pods Status:\t{view.phases(obj, selector_text(spec.get('selector')))}"
    yield from pod_template(spec.get("template"))
    yield from _claim_templates(items(spec, "volumeClaimTemplates"))
    yield from view.events(obj, kind="StatefulSet")


def _claim_templates(templates: list[Value]) -> Lines:
    if not templates:
        yield f"Volume Claims:\t{NONE}"
        return
    yield "Volume Claims:"
    for claim in templates:
        spec = part(claim, "spec")
        yield f"  Name:\t{meta(claim).get('name')}"
        yield f"  StorageClass:\t{storage_class_of(claim)}"
        yield from label_lines("Labels", meta(claim).get("labels"), "  ")
        yield from label_lines("Annotations", meta(claim).get("annotations"), "  ")
        yield f"  Capacity:\t{part(spec, 'resources', 'requests').get('storage', '<default>')}"
        yield f"  Access Modes:\t{go_text(items(spec, 'accessModes'))}"


def describe_daemon_set(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    yield from heading(
        obj,
        f"Selector:\t{selector_text(spec.get('selector'))}",
        f"Node-Selector:\t{format_labels(part(spec, 'template', 'spec').get('nodeSelector'))}",
    )
    yield f"Desired Number of Nodes Scheduled: {status.get('desiredNumberScheduled', 0)}"
    yield f"Current Number of Nodes Scheduled: {status.get('currentNumberScheduled', 0)}"
    yield f"Number of Nodes Scheduled with Up-to-date Pods: {status.get('updatedNumberScheduled', 0)}"
    yield f"Number of Nodes Scheduled with Available Pods: {status.get('numberAvailable', 0)}"
    yield f"Number of Nodes Misscheduled: {status.get('numberMisscheduled', 0)}"
    yield f"Pods Status:\t{view.phases(obj, selector_text(spec.get('selector')))}"
    yield from pod_template(spec.get("template"))
    yield from view.events(obj, kind="DaemonSet")


def describe_job(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    yield from heading(obj, f"Selector:\t{selector_text(spec.get('selector'))}")
    yield from controller_lines(obj)
    if spec.get("parallelism") is not None:
        yield f"Parallelism:\t{spec['parallelism']}"
    yield f"Completions:\t{spec.get('completions', UNSET)}"
    for title, field in (
        ("Completion Mode", "completionMode"),
        ("Suspend", "suspend"),
        ("Backoff Limit", "backoffLimit"),
        ("TTL Seconds After Finished", "ttlSecondsAfterFinished"),
    ):
        if spec.get(field) is not None:
            yield f"{title}:\t{go_text(spec[field])}"
    start, end = status.get("startTime"), status.get("completionTime")
    if start:
        yield f"Start Time:\t{time_text(start)}"
    if end:
        yield f"Completed At:\t{time_text(end)}"
    if start and end:
        yield f"Duration:\t{format_age(times.parse_time(end) - times.parse_time(start))}"
    if spec.get("activeDeadlineSeconds") is not None:
        yield f"Active Deadline Seconds:\t{spec['activeDeadlineSeconds']}s"
    ready = f" ({status['ready']} Ready)" if status.get("ready") is not None else ""
    yield (
        f"Pods Statuses:\t{status.get('active', 0)} Active{ready} / {status.get('succeeded', 0)} Succeeded / "
        f"{status.get('failed', 0)} Failed"
    )
    if spec.get("completionMode") == "Indexed":
        yield f"Completed Indexes:\t{_indexes(status.get('completedIndexes', ''))}"
    yield from pod_template(spec.get("template"))
    yield from view.events(obj, kind="Job")


def _indexes(text: str) -> str:
    if not text:
        return NONE
    comma = text.find(",", _INDEXES)
    return f"{text[: comma + 1]}..." if comma >= 0 else text


def describe_cron_job(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    job = part(spec, "jobTemplate", "spec")
    deadline = spec.get("startingDeadlineSeconds")
    yield from heading(obj)
    yield f"Schedule:\t{spec.get('schedule', '')}"
    yield f"Concurrency Policy:\t{spec.get('concurrencyPolicy', '')}"
    yield f"Suspend:\t{true_or_false(spec.get('suspend'))}"
    yield f"Time Zone:\t{spec.get('timeZone', UNSET)}"
    yield f"Successful Job History Limit:\t{spec.get('successfulJobsHistoryLimit', UNSET)}"
    yield f"Failed Job History Limit:\t{spec.get('failedJobsHistoryLimit', UNSET)}"
    yield f"Starting Deadline Seconds:\t{UNSET if deadline is None else f'{deadline}s'}"
    yield f"Selector:\t{selector_text(job['selector']) if job.get('selector') is not None else UNSET}"
    yield f"Parallelism:\t{job.get('parallelism', UNSET)}"
    yield f"Completions:\t{job.get('completions', UNSET)}"
    if job.get("activeDeadlineSeconds") is not None:
        yield f"Active Deadline Seconds:\t{job['activeDeadlineSeconds']}s"
    yield from pod_template(job.get("template"))
    last = status.get("lastScheduleTime")
    yield f"Last Schedule Time:\t{time_text(last) if last else UNSET}"
    yield f"Active Jobs:\t{', '.join(str(ref.get('name')) for ref in items(status, 'active')) or NONE}"
    yield from view.events(obj, kind="CronJob")


def describe_disruption_budget(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    yield f"Name:\t{meta(obj).get('name')}"
    yield f"Namespace:\t{meta(obj).get('namespace')}"
    if spec.get("minAvailable") is not None:
        yield f"Min available:\t{spec['minAvailable']}"
    elif spec.get("maxUnavailable") is not None:
        yield f"Max unavailable:\t{spec['maxUnavailable']}"
    yield f"Selector:\t{selector_or_none(spec['selector']) if spec.get('selector') is not None else UNSET}"
    yield "Status:"
    yield f"    Allowed disruptions:\t{status.get('disruptionsAllowed', 0)}"
    yield f"    Current:\t{status.get('currentHealthy', 0)}"
    yield f"    Desired:\t{status.get('desiredHealthy', 0)}"
    yield f"    Total:\t{status.get('expectedPods', 0)}"
    yield from view.events(obj, kind="PodDisruptionBudget")


# -- autoscalers -----------------------------------------------------------------------------------------------------


def describe_autoscaler(obj: Value, view: ClusterView) -> Lines:
    spec, status = part(obj, "spec"), part(obj, "status")
    target = part(spec, "scaleTargetRef")
    yield from heading(obj)
    yield _creation_time(obj)
    yield f"Reference:\t{target.get('kind')}/{target.get('name')}"
    yield "Metrics:\t( current / target )"
    current = items(status, "currentMetrics")
    for index, metric in enumerate(items(spec, "metrics")):
        yield f"  {_metric_line(metric, current[index] if index < len(current) else {})}"
    yield f"Min replicas:\t{spec.get('minReplicas', UNSET)}"
    yield f"Max replicas:\t{spec.get('maxReplicas', 0)}"
    if behavior := spec.get("behavior"):
        yield "Behavior:"
        yield from _behavior("Scale Up", behavior.get("scaleUp"))
        yield from _behavior("Scale Down", behavior.get("scaleDown"))
    replicas = f"{status.get('currentReplicas', 0)} current / {status.get('desiredReplicas', 0)} desired"
    yield f"{target.get('kind')} pods:\t{replicas}"
    if rows := items(status, "conditions"):
        yield "Conditions:"
        yield "  Type\tStatus\tReason\tMessage"
        yield "  ----\t------\t------\t-------"
        for row in rows:
            yield f"  {row.get('type')}\t{row.get('status')}\t{row.get('reason', '')}\t{row.get('message', '')}"
    yield from view.events(obj, kind="HorizontalPodAutoscaler")


def _metric_line(metric: Value, current_metric: Value) -> str:
    kind = str(metric.get("type", ""))
    field = kind[:1].lower() + kind[1:]
    source, current = part(metric, field), part(current_metric, field, "current")
    target = part(source, "target")
    if kind in ("Resource", "ContainerResource"):
        subject = f"resource {source.get('name')} on pods"
        if kind == "ContainerResource":
            subject = f'resource {source.get("name")} of container "{source.get("container")}" on pods'
        if target.get("averageValue") is not None:
            return f"{subject}:\t{current.get('averageValue', UNKNOWN)} / {target['averageValue']}"
        usage = UNKNOWN
        if current.get("averageUtilization") is not None:
            usage = f"{current['averageUtilization']}% ({current.get('averageValue', '0')})"
        percent = target.get("averageUtilization")
        return f"{subject}  (as a percentage of request):\t{usage} / {'<auto>' if percent is None else f'{percent}%'}"
    name = part(source, "metric").get("name")
    is_average = target.get("averageValue") is not None
    value = "averageValue" if is_average else "value"
    amounts = f"{current.get(value, UNKNOWN)} / {target.get(value, '<nil>')}"
    if kind == "Pods":
        return f'"{name}" on pods:\t{amounts}'
    title = f"(target {'average ' if is_average else ''}value)"
    if kind == "Object":
        described = part(source, "describedObject")
        return f'"{name}" on {described.get("kind")}/{described.get("name")} {title}:\t{amounts}'
    if kind == "External":
        return f'"{name}" {title}:\t{amounts}'
    return f'<unknown metric type "{kind}">'


def _behavior(direction: str, rules: Value | None) -> Lines:
    if rules is None:
        return
    yield f"  {direction}:"
    if rules.get("stabilizationWindowSeconds") is not None:
        yield f"    Stabilization Window: {rules['stabilizationWindowSeconds']} seconds"
    if policies := items(rules, "policies"):
        yield f"    Select Policy: {rules.get('selectPolicy', 'Max')}"
        yield "    Policies:"
        for policy in policies:
            yield (
                f"      - Type: {policy.get('type')}\tValue: {policy.get('value')}\t"
                f"Period: {policy.get('periodSeconds')} seconds"
            )
