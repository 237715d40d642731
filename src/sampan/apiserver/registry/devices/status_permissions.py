"""Additional authorization of updates of a claim's status.

Changes of the allocation and the reservations need permission for `resourceclaims/binding`, changes of the status of
devices that for `resourceclaims/driver` of their driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1 import AllocatedDeviceStatus, AllocationResult, ResourceClaimStatus
from sampan.apiserver.authn.user_names import is_service_account_on
from sampan.apiserver.authz.authorizer import Attributes, AuthzDecision, AuthzResult, UnionAuthorizer, forbidden_error
from sampan.apiserver.registry.devices.claim_status import device_id
from sampan.apiserver.registry.validation import is_same

_OF_NODE, _OF_ANY = "associated-node:", "arbitrary-node:"


@dataclass(frozen=True, slots=True)
class Need:
    """A required permission: any of `attributes` is enough, and the error names the first of them."""

    at: str
    why: str
    attributes: Sequence[Attributes]


async def validate_status_permissions(authorizer: UnionAuthorizer, needs: Iterator[Need]) -> list[FieldError]:
    errors = [await _refusal(authorizer, need) for need in needs]
    return [error for error in errors if error is not None]


async def _refusal(authorizer: UnionAuthorizer, need: Need) -> FieldError | None:
    missed = []
    for attributes in need.attributes:
        result = await authorizer.authorize(attributes)
        if result.decision is AuthzDecision.ALLOW:
            return None
        missed.append(forbidden_error(attributes, _reason(result)).message)
    return FieldError.forbidden(need.at, f"{need.why} permission: {missed[0]}")


def _reason(result: AuthzResult) -> str:
    return ": ".join(part for part in (result.error, result.reason) if part)


def needs_of(request: Attributes, new: ResourceClaimStatus, old: ResourceClaimStatus) -> Iterator[Need]:
    """Yield the permissions that the change requires. `request` holds the attributes of the request that makes it."""
    if not (is_same(new.allocation, old.allocation) and is_same(new.reservedFor, old.reservedFor)):
        yield _binding(request)
    if new.allocation is not None:
        for driver in changed_drivers(new.devices, old.devices):
            yield _driver(request, driver, node_of(new.allocation))


def _binding(request: Attributes) -> Need:
    """Return the permission for binding, which is checked at cluster scope whatever the claim's namespace is."""
    attributes = msgspec.structs.replace(request, subresource="binding", namespace="", name="")
    why = "changing status.allocation or status.reservedFor requires"
    return Need("status.allocation", f'{why} resource="resourceclaims/binding", verb="{request.verb}"', [attributes])


def _driver(request: Attributes, driver: str, node: str) -> Need:
    is_there = not names.dns1123_subdomain(node) and is_service_account_on(request.user, node)
    verbs = [f"{prefix}{request.verb}" for prefix in ([_OF_NODE, _OF_ANY] if is_there else [_OF_ANY])]
    requests = [msgspec.structs.replace(request, verb=verb, subresource="driver", name=driver) for verb in verbs]
    why = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
    return Need("status.devices", why, requests)


def changed_drivers(new: Sequence[AllocatedDeviceStatus], old: Sequence[AllocatedDeviceStatus]) -> list[str]:
    """Return the drivers whose device status was changed, added or removed."""
    before = {device_id(device): device for device in old}
    changed = {device.driver for device in new if not is_same(before.pop(device_id(device), None), device)}
    return sorted(changed.union(device.driver for device in before.values()))


def node_of(allocation: AllocationResult) -> str:
    """Return the only node where the devices can be used, "" if the node selector is not for a single node name."""
    terms = allocation.nodeSelector.nodeSelectorTerms if allocation.nodeSelector is not None else None
    if not terms or len(terms) != 1 or terms[0].matchExpressions or len(terms[0].matchFields) != 1:
        return ""
    field = terms[0].matchFields[0]
    is_one = (field.key, field.operator) == ("metadata.name", "In") and len(field.values) == 1
    return field.values[0] if is_one else ""
