"""The ResourceQuotaConfiguration: resources that can only be consumed if a quota covers them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.types.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from sampan.apiserver.admission.configuration import ConfigurationError
from sampan.apiserver.admission.resource_quota.demand import Write
from sampan.machinery.quota import terms_of

_KIND, _GROUP = "ResourceQuotaConfiguration", "apiserver.config.k8s.io/"


class Scope(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    scopeName: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    @property
    def term(self) -> ScopedResourceSelectorRequirement:
        return ScopedResourceSelectorRequirement(
            scopeName=self.scopeName, operator=self.operator, values=list(self.values)
        )

    def __str__(self) -> str:
        return f"{{{self.scopeName} {self.operator} [{' '.join(self.values)}]}}"


class LimitedResource(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    resource: str
    apiGroup: str = ""
    matchContains: tuple[str, ...] = ()
    matchScopes: tuple[Scope, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    limitedResources: tuple[LimitedResource, ...] = ()


def read(config: Mapping[str, Any]) -> tuple[LimitedResource, ...]:
    """Return the limited resources. Raise ConfigurationError if the configuration is invalid."""
    try:
        configuration = msgspec.convert(config, _File)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"ResourceQuota: {error}") from None
    if configuration.kind != _KIND or not configuration.apiVersion.startswith(_GROUP):
        raise ConfigurationError(f"ResourceQuota: want kind {_KIND} of apiVersion {_GROUP}v1")
    return configuration.limitedResources


def uncovered(limited: Sequence[LimitedResource], write: Write, quotas: Sequence[ResourceQuota]) -> str:
    """Return why the write needs a quota that does not exist; "" if it does not."""
    covered = {name for quota in quotas if write.concerns(quota) for name in quota.status.hard}
    if lacking := sorted(_names(limited, write) - covered):
        return f"insufficient quota to consume: {','.join(lacking)}"
    if open_scopes := [scope for scope in _scopes(limited, write) if not _is_covered(scope, write, quotas)]:
        return f"insufficient quota to match these scopes: [{' '.join(map(str, open_scopes))}]"
    return ""


def _names(limited: Sequence[LimitedResource], write: Write) -> set[str]:
    parts = [part for resource in limited for part in resource.matchContains]
    return {name for name in write.usage() if any(part in name for part in parts)}


def _scopes(limited: Sequence[LimitedResource], write: Write) -> Iterator[Scope]:
    for resource in limited:
        yield from (scope for scope in resource.matchScopes if write.evaluator.is_in(scope.term, write.obj))


def _is_covered(scope: Scope, write: Write, quotas: Sequence[ResourceQuota]) -> bool:
    """Whether a quota has the scope and the object matches it."""
    is_in = write.evaluator.is_in
    return any(
        term.scopeName == scope.scopeName and is_in(term, write.obj) for quota in quotas for term in terms_of(quota)
    )
