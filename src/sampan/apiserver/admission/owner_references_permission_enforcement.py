"""OwnerReferencesPermissionEnforcement: changing the owner references of an object requires permission to delete it,
and blocking the deletion of an owner requires permission to update the owner's finalizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.types.meta_v1 import OwnerReference
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.lookup import authorize, is_allowed
from sampan.apiserver.authz.authorizer import Attributes as AuthzAttributes
from sampan.apiserver.authz.authorizer import AuthzDecision

_NO_ERROR = "<nil>"
"""The text for a nil error in the messages of Kubernetes."""


class OwnerReferencesPermissionEnforcement:
    name = "OwnerReferencesPermissionEnforcement"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_pod_status = (resource.group, resource.plural, subresource) == ("", "pods", "status")
        return operation in ("CREATE", "UPDATE") and not is_pod_status

    async def validate(self, attributes: AdmissionAttributes) -> None:
        new = _owners(attributes.obj)
        old = _owners(attributes.old) if attributes.old is not None else []
        if new == old:
            return
        if attributes.operation == "UPDATE":
            await _require_deletion(attributes)
        blocking = find_newly_blocking_owners(old, new)
        if not blocking or await is_allowed(attributes, _make_finalizer_attributes(attributes)):
            return
        for owner in blocking:
            await _require_finalizers(attributes, owner)


def _owners(obj: Any) -> list[OwnerReference]:
    owners: list[OwnerReference] = obj.metadata.ownerReferences
    return owners


def find_newly_blocking_owners(old: Sequence[OwnerReference], new: Sequence[OwnerReference]) -> list[OwnerReference]:
    """Return the new owner references that block the deletion of an owner which the old ones do not block."""
    before = {owner.uid for owner in old if owner.blockOwnerDeletion}
    return [owner for owner in new if owner.blockOwnerDeletion and owner.uid not in before]


async def _require_deletion(attributes: AdmissionAttributes) -> None:
    resource = attributes.resource
    request = AuthzAttributes(
        attributes.user,
        "delete",
        "",
        resource.group,
        resource.version,
        resource.plural,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
    )
    result = await authorize(attributes, request)
    if result.decision is not AuthzDecision.ALLOW:
        why = f"cannot set an ownerRef on a resource you can't delete: {result.reason}, {_NO_ERROR}"
        raise attributes.forbidden(why)


def _make_finalizer_attributes(attributes: AdmissionAttributes) -> AuthzAttributes:
    return AuthzAttributes(attributes.user, "update", "", "*", "*", "*", "finalizers", "", "*")


async def _require_finalizers(attributes: AdmissionAttributes, owner: OwnerReference) -> None:
    resources = list(_resources(attributes, owner))
    if not resources:
        group, _, version = owner.apiVersion.rpartition("/")
        owner_text = f"APIVersion {owner.apiVersion} Kind {owner.kind}"
        missing = f'no matches for kind "{owner.kind}" in version "{group + "/" if group else ""}{version}"'
        start = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
        raise attributes.forbidden(f"{start} {owner_text}: {missing}")
    for resource in resources:
        namespace = attributes.namespace if resource.namespaced else ""
        group, version, plural = resource.group, resource.version, resource.plural
        request = AuthzAttributes(
            attributes.user, "update", "", group, version, plural, "finalizers", namespace, owner.name
        )
        result = await authorize(attributes, request)
        if result.decision is not AuthzDecision.ALLOW:
            start = (
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
            )
            raise attributes.forbidden(f"{start}: {result.reason}, {_NO_ERROR}")


def _resources(attributes: AdmissionAttributes, owner: OwnerReference) -> Iterator[Resource]:
    group, _, version = owner.apiVersion.rpartition("/")
    resource = attributes.registry.scheme.find_by_kind(group, version, owner.kind)
    if resource is not None:
        yield resource
