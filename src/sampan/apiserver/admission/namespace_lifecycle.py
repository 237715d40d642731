"""NamespaceLifecycle: rejects new objects in missing or terminating namespaces, and deletion of system namespaces."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Namespace
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.machinery import errors

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_REVIEWS = ("authorization.k8s.io", "localsubjectaccessreviews")
_DISTRUST_S = 30


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self) -> None:
        self._deleted: dict[str, float] = {}
        """Recently deleted namespaces, and until when a consistent read replaces the cached object."""

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if _is_namespace(resource):
            return operation == "DELETE"
        is_review = (resource.group, resource.plural) == _REVIEWS
        return resource.namespaced and operation == "CREATE" and not is_review

    async def admit(self, attributes: AdmissionAttributes) -> None:
        if _is_namespace(attributes.resource):
            self._check_deletion(attributes)
            return
        namespace = await self._namespace(attributes)
        if namespace is None:
            raise errors.not_found("namespaces", attributes.namespace)
        if namespace.status.phase == "Terminating":
            raise _terminating_namespace_error(attributes)

    def _check_deletion(self, attributes: AdmissionAttributes) -> None:
        if attributes.name in _IMMORTAL:
            raise errors.forbidden("namespaces", attributes.name, "this namespace may not be deleted")
        now = attributes.registry.clock.now()
        self._deleted = {name: until for name, until in self._deleted.items() if until > now}
        self._deleted[attributes.name] = now + _DISTRUST_S

    async def _namespace(self, attributes: AdmissionAttributes) -> Namespace | None:
        store, name = attributes.registry.open_store_of("", "v1", "Namespace"), attributes.namespace
        find = lookup.find_now if name in self._deleted else lookup.find
        namespace: Namespace | None = await find(store, "", name)
        return namespace


def _is_namespace(resource: Resource) -> bool:
    return resource.plural == "namespaces" and resource.group == ""


def _terminating_namespace_error(attributes: AdmissionAttributes) -> errors.ApiError:
    name = attributes.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {name} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {name} because it is being terminated"
    return attributes.forbidden(why, [cause])
