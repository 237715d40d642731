"""The revisions of a workload: the replica sets of a Deployment, the ControllerRevisions of a DaemonSet or StatefulSet
(`kubectl/pkg/polymorphichelpers/history.go`), and the description of their pod template.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.object_writer import CHANGE_CAUSE
from sampan.kubectl.objects.targets import ResourceInfo

REVISION = "deployment.kubernetes.io/revision"
TEMPLATE_HASH = "pod-template-hash"
_WORKLOADS = {("apps", "ReplicaSet"), ("batch", "Job"), ("batch", "CronJob"), ("", "Pod")} | {
    ("", "ReplicationController")
}
"""Workload kinds that kubectl knows and that have no revisions."""


def replica_sets_by_revision(session: Session, deployment: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the replica sets that a Deployment controls, by their revision in ascending order."""
    metadata = deployment["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    try:
        current = session.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    except ServerError as error:
        raise KubectlError(f"failed to retrieve deployment {name}: {error.error.message}") from None
    items = _list_controlled(session, f"/apis/apps/v1/namespaces/{namespace}/replicasets", current)
    revisions: dict[int, dict[str, Any]] = {}
    for item in items:
        text = (item["metadata"].get("annotations") or {}).get(REVISION)
        if text and text.isdecimal():
            revisions[int(text)] = {"kind": "ReplicaSet", "apiVersion": "apps/v1", **item}
    return dict(sorted(revisions.items()))


def controller_revisions(session: Session, workload: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the ControllerRevisions of a DaemonSet or StatefulSet, by number in ascending order."""
    namespace = workload["metadata"]["namespace"]
    items = _list_controlled(session, f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions", workload)
    return dict(sorted((item["revision"], item) for item in items))


def workload_at(workload: dict[str, Any], revision: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a DaemonSet or StatefulSet with the pod template of a ControllerRevision."""
    value = deepcopy(workload)
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    value["spec"]["template"] = {key: part for key, part in template.items() if key != "$patch"}
    return value


def change_cause_of(value: dict[str, Any]) -> str:
    return (value["metadata"].get("annotations") or {}).get(CHANGE_CAUSE) or "<none>"


def is_deployment(info: ResourceInfo) -> bool:
    return (info.kind.group, info.kind.kind) == ("apps", "Deployment")


def has_controller_revisions(info: ResourceInfo) -> bool:
    return info.kind.group == "apps" and info.kind.kind in ("DaemonSet", "StatefulSet")


def unsupported_kind(info: ResourceInfo, tool: str, action: str) -> KubectlError:
    """Return the error for a kind without revisions."""
    group, kind = info.kind.group, info.kind.kind
    name = f"{kind}.{group}" if group else kind
    if (group, kind) in _WORKLOADS:
        return KubectlError(f'no {tool} has been implemented for "{name}"')
    return KubectlError(f'error {action} for "{name}", no visitor method exists for {{{group} {kind}}}')


def _list_controlled(session: Session, path: str, owner: dict[str, Any]) -> list[dict[str, Any]]:
    selector = (owner.get("spec") or {}).get("selector") or {}
    items = session.get(path, {"labelSelector": _selector_text(selector)}).get("items") or ()
    uid = owner["metadata"].get("uid")
    return [
        item
        for item in items
        if any(
            reference.get("controller") and reference.get("uid") == uid
            for reference in item["metadata"].get("ownerReferences") or ()
        )
    ]


def _selector_text(selector: dict[str, Any]) -> str:
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(forms.get(expression["operator"], f"!{key}"))
    return ",".join(parts)


def template_text(template: dict[str, Any]) -> str:
    """Return the description of a pod template: the lines that begin with "Pod Template:"."""
    from sampan.kubectl.describers.pods import pod_template

    return "".join(f"{line}\n" for line in pod_template(template))
