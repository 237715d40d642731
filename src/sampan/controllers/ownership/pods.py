"""Creation and deletion of pods for an owner, with the events that report them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api import names
from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.core_v1 import Pod, PodSpec, PodTemplateSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.namespaces import TERMINATING_CAUSE
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.events import NORMAL, WARNING, EventRecorder

SUCCESSFUL_CREATE, FAILED_CREATE = "SuccessfulCreate", "FailedCreate"
SUCCESSFUL_DELETE, FAILED_DELETE = "SuccessfulDelete", "FailedDelete"


def name_prefix(owner_name: str) -> str:
    """Return the generateName prefix for the owner's pods: its name with a dash, if that is a valid prefix."""
    dashed = f"{owner_name}-"
    return owner_name if names.dns1123_subdomain(dashed, prefix=True) else dashed


def pod_from(
    template: PodTemplateSpec,
    owner: Any,
    *,
    name: str = "",
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    spec: PodSpec | None = None,
) -> Pod:
    """Return a pod from the template, controlled by the owner.

    `labels`, `annotations` and `finalizers` are added to those of the template; `spec` replaces its spec. The pod
    shares structure with the template and must not be modified.
    """
    meta = template.metadata
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generateName="" if name else generate_name or name_prefix(owner.metadata.name),
            namespace=owner.metadata.namespace,
            labels={**meta.labels, **(labels or {})},
            annotations={**meta.annotations, **(annotations or {})},
            finalizers=list(dict.fromkeys((*meta.finalizers, *finalizers))),
            ownerReferences=[new_controller_ref(owner)],
        ),
        spec=spec or template.spec,
    )


def is_namespace_ending(error: BaseException) -> bool:
    """Whether the create was rejected because the namespace is terminating, which is not reported as an event."""
    return isinstance(error, errors.ApiError) and error.has_cause(TERMINATING_CAUSE)


class PodControl:
    def __init__(self, *, client: Client, events: EventRecorder) -> None:
        self._pods, self._events = client.of(Pod), events

    async def create(self, template: PodTemplateSpec, namespace: str, owner: Any, **said: Any) -> Pod:
        """Create a pod from the template for the owner; `said` is passed to `pod_from`."""
        return await self.create_pod(pod_from(template, owner, **said), owner, namespace)

    async def create_pod(self, pod: Pod, owner: Any, namespace: str = "") -> Pod:
        if not pod.metadata.labels:
            raise errors.BadRequest("unable to create pods, no labels")
        try:
            created = await self._pods.create(pod, namespace)
        except errors.ApiError as error:
            if not is_namespace_ending(error):
                self._events.event(owner, WARNING, FAILED_CREATE, f"Error creating: {error}")
            raise
        self._events.event(owner, NORMAL, SUCCESSFUL_CREATE, f"Created pod: {created.metadata.name}")
        return created

    async def delete(self, pod: Pod, owner: Any) -> None:
        """Delete the pod and record an event; raise NotFound, without an event, if it does not exist."""
        name = pod.metadata.name
        try:
            await self._pods.delete(name, pod.metadata.namespace)
        except errors.NotFound:
            raise
        except errors.ApiError as error:
            self._events.event(owner, WARNING, FAILED_DELETE, f"Error deleting: {error}")
            raise
        self._events.event(owner, NORMAL, SUCCESSFUL_DELETE, f"Deleted pod: {name}")
