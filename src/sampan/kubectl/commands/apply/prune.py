"""--prune: delete objects that were applied earlier and are no longer among the files (`kubectl/pkg/util/prune`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.resource_types import UnknownResourceType
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.last_applied import last_applied_text
from sampan.kubectl.objects.targets import ResourceInfo

_DEFAULT_KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
)


def prunable_types(factory: Factory, allowlist: Sequence[str]) -> list[ResourceType]:
    """Return the types of --prune-allowlist, or else the default ones."""
    kinds: list[tuple[str, str]] = []
    for text in allowlist:
        parts = text.split("/")
        if len(parts) != 3:
            raise KubectlError(f"invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
        group = "" if parts[0] == "core" else parts[0]
        kinds.append((f"{group}/{parts[1]}" if group else parts[1], parts[2]))
    types: list[ResourceType] = []
    for api_version, kind in kinds or _DEFAULT_KINDS:
        try:
            types.append(factory.kinds.find_by_kind(api_version, kind))
        except UnknownResourceType as error:
            raise KubectlError(error.message) from None
    return types


def prunable_objects(
    factory: Factory, types: Iterable[ResourceType], namespaces: Iterable[str], uids: set[str], selector: str
) -> Iterator[ResourceInfo]:
    """Yield the objects with the annotation of apply in the namespaces, and those without a namespace, that are not
    among `uids`."""
    query = {"labelSelector": selector} if selector else {}
    types = list(types)
    for namespace in (*namespaces, ""):
        for kind in types:
            if kind.is_namespaced != bool(namespace):
                continue
            scope = "namespaced" if namespace else "nonNamespaced"
            try:
                items = factory.session.get(kind.collection(namespace), query).get("items") or ()
            except ServerError as error:
                shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
                raise KubectlError(f"error pruning {scope} object {shown}: {error.error.message}") from None
            for item in items:
                if last_applied_text(item) is not None and item["metadata"].get("uid") not in uids:
                    title = {"apiVersion": kind.api_version, "kind": kind.kind}
                    yield ResourceInfo(kind, namespace, item["metadata"]["name"], {**title, **item})
