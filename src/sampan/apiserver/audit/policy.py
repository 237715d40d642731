"""The audit policy: which rule matches a request, and how much of it is recorded."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec

from sampan.apiserver.authz.authorizer import Attributes
from sampan.machinery.config_file import ConfigFileError, convert_config, read_config_file

RECEIVED, STARTED, COMPLETE, PANIC = "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"
_STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)
_KIND, _VERSION = "Policy", "audit.k8s.io/v1"


class AuditLevel(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST_RESPONSE,
}
NAMES = {level: name for name, level in LEVELS.items()}


class RequestAuditConfig(msgspec.Struct, frozen=True):
    """How much of a request is recorded: its audit level, the omitted stages, and whether managed fields are
    omitted."""

    level: AuditLevel
    omitted: frozenset[str] = frozenset()
    """The stages that are not recorded."""
    omits_managed_fields: bool = False


class GroupResources(msgspec.Struct, forbid_unknown_fields=True):
    group: str = ""
    resources: list[str] = []
    resourceNames: list[str] = []

    def fits(self, attributes: Attributes) -> bool:
        if self.group not in (attributes.group, "*"):
            return False
        if not self.resources:
            return True
        if self.resourceNames and attributes.name not in self.resourceNames:
            return False
        return any(_matches_resource(resource, attributes) for resource in self.resources)


class AuditPolicyRule(msgspec.Struct, forbid_unknown_fields=True):
    level: str = ""
    users: list[str] = []
    userGroups: list[str] = []
    verbs: list[str] = []
    resources: list[GroupResources] = []
    namespaces: list[str] = []
    nonResourceURLs: list[str] = []
    omitStages: list[str] = []
    omitManagedFields: bool | None = None

    def fits(self, attributes: Attributes) -> bool:
        if self.users and attributes.user.name not in self.users:
            return False
        if self.userGroups and not any(group in self.userGroups for group in attributes.user.groups):
            return False
        if self.verbs and attributes.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return attributes.is_resource and self._fits_resource(attributes)
        if self.nonResourceURLs:
            return not attributes.is_resource and any(
                _matches_path(url, attributes.path) for url in self.nonResourceURLs
            )
        return True

    def _fits_resource(self, attributes: Attributes) -> bool:
        if self.namespaces and attributes.namespace not in self.namespaces:
            return False
        return not self.resources or any(resources.fits(attributes) for resources in self.resources)


class _PolicyFile(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    metadata: dict[str, Any] = {}
    rules: list[AuditPolicyRule] = []
    omitStages: list[str] = []
    omitManagedFields: bool = False


class AuditPolicy:
    def __init__(self, rules: list[tuple[AuditPolicyRule, RequestAuditConfig]]) -> None:
        self._rules = rules

    def evaluate(self, attributes: Attributes) -> RequestAuditConfig:
        """Return the audit configuration of the first matching rule; a request that no rule matches is not recorded."""
        for rule, audit_config in self._rules:
            if rule.fits(attributes):
                return audit_config
        return _NO_AUDIT_CONFIG


_NO_AUDIT_CONFIG = RequestAuditConfig(AuditLevel.NONE)


def read_policy(path: Path) -> AuditPolicy:
    """Return the policy. Raise ConfigFileError if it is invalid or cannot be read."""
    return parse(read_config_file(path))


def parse(value: Any) -> AuditPolicy:
    policy_file = convert_config(value, _PolicyFile)
    if (policy_file.apiVersion, policy_file.kind) != (_VERSION, _KIND):
        raise ConfigFileError(f"want kind {_KIND} of apiVersion {_VERSION}")
    if not policy_file.rules:
        raise ConfigFileError("rules: at least one is required")
    _check_stages(policy_file.omitStages, "omitStages")
    for index, rule in enumerate(policy_file.rules):
        _check(rule, f"rules[{index}]")
    return AuditPolicy([(rule, _audit_config(rule, policy_file)) for rule in policy_file.rules])


def _audit_config(rule: AuditPolicyRule, policy: _PolicyFile) -> RequestAuditConfig:
    omits = policy.omitManagedFields if rule.omitManagedFields is None else rule.omitManagedFields
    return RequestAuditConfig(LEVELS[rule.level], frozenset((*policy.omitStages, *rule.omitStages)), omits)


def _check(rule: AuditPolicyRule, path: str) -> None:
    if rule.level not in LEVELS:
        raise ConfigFileError(f"{path}.level: want one of {', '.join(LEVELS)}")
    _check_stages(rule.omitStages, f"{path}.omitStages")
    for url in rule.nonResourceURLs:
        if url != "*" and (not url.startswith("/") or "*" in url[:-1]):
            raise ConfigFileError(f"{path}.nonResourceURLs: {url!r} must begin with '/', and have '*' only at its end")
    if rule.nonResourceURLs and (rule.resources or rule.namespaces):
        raise ConfigFileError(f"{path}.nonResourceURLs: rules cannot apply to both resources and non-resource URLs")
    for resources in rule.resources:
        if resources.resourceNames and not resources.resources:
            raise ConfigFileError(f"{path}.resources: resourceNames requires at least one resource")
        if "/" in resources.group:
            raise ConfigFileError(
                f"{path}.resources: {resources.group!r} is not an API group (it must not contain a version)"
            )


def _check_stages(stages: list[str], path: str) -> None:
    for stage in stages:
        if stage not in _STAGES:
            raise ConfigFileError(f"{path}: there is no stage {stage!r}; supported: {', '.join(_STAGES)}")


def _matches_resource(word: str, attributes: Attributes) -> bool:
    """Whether a rule's `pods`, `pods/log`, `pods/*`, `*/scale` or `*` matches the requested resource."""
    if word in ("*", attributes.whole_resource):
        return True
    resource, slash, part = word.partition("/")
    if not slash:
        return False
    return (resource == "*" and bool(part) and part == attributes.subresource) or (
        part == "*" and resource == attributes.resource
    )


def _matches_path(word: str, path: str) -> bool:
    return word in ("*", path) or (word.endswith("*") and path.startswith(word.rstrip("*")))
