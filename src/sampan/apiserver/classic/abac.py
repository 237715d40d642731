"""Attribute-based access control: a policy file with one JSON object per line, each of which grants permissions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.authorizer import ALLOW, Attributes, AuthzDecision, AuthzResult, ResolvedRules
from sampan.apiserver.request.call import AUTHENTICATED, UNAUTHENTICATED, UserInfo

_API_VERSIONS = ("abac.authorization.kubernetes.io/v0", "abac.authorization.kubernetes.io/v1beta1")
_READS = frozenset({"get", "list", "watch"})
_NO = AuthzResult(AuthzDecision.NO_OPINION, "No policy matched.")


class AbacPolicyError(ValueError):
    """The policy file is invalid; the message names the file and the line."""


class AbacPolicy(msgspec.Struct):
    """A policy as written in the file; `*` matches everything."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    apiGroup: str = ""
    resource: str = ""
    namespace: str = ""
    nonResourcePath: str = ""


class _PolicyLine(AbacPolicy):
    """One line of the file. The oldest version has its fields at the top level and neither kind nor apiVersion."""

    apiVersion: str = ""
    kind: str = ""
    spec: AbacPolicy | None = None


def read_policies(path: Path) -> list[AbacPolicy]:
    policies = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            policies.append(_policy(text, f"{path}, line {number}"))
    return policies


def _policy(text: str, source: str) -> AbacPolicy:
    try:
        line = msgspec.json.decode(text, type=_PolicyLine)
    except msgspec.MsgspecError as error:
        raise AbacPolicyError(f"{source}: {error}") from None
    if not line.apiVersion and not line.kind:
        return _convert_oldest_policy(line)
    if line.kind != "Policy" or line.apiVersion not in _API_VERSIONS:
        raise AbacPolicyError(f"{source}: want a Policy of {_API_VERSIONS[-1]}, not a {line.kind} of {line.apiVersion}")
    return _convert_oldest_policy(line) if line.apiVersion == _API_VERSIONS[0] else line.spec or AbacPolicy()


def _convert_oldest_policy(line: _PolicyLine) -> AbacPolicy:
    """Convert a policy of the oldest version, in which an omitted field matches everything. A policy for a resource or
    namespace does not match non-resource paths."""
    is_everybody = not line.user and not line.group
    is_all = not line.namespace and not line.resource
    return AbacPolicy(
        user=line.user,
        group=AUTHENTICATED if is_everybody else line.group,
        readonly=line.readonly,
        apiGroup="*",
        resource=line.resource or "*",
        namespace=line.namespace or "*",
        nonResourcePath="*" if is_all else "",
    )


class AbacAuthorizer:
    def __init__(self, *, policies: Sequence[AbacPolicy], name: str = "abac") -> None:
        self.name = name
        self._policies = policies

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return ALLOW if any(_allows(policy, attributes) for policy in self._policies) else _NO

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        own = [policy for policy in self._policies if _is_subject(policy, user)]
        return ResolvedRules([rule for policy in own for rule in _rules(policy, namespace)])


def _rules(policy: AbacPolicy, namespace: str) -> Iterator[PolicyRule]:
    verbs = ["get", "list", "watch"] if policy.readonly else ["*"]
    if policy.namespace in ("*", namespace):
        if policy.resource:
            yield PolicyRule(verbs=verbs, apiGroups=[policy.apiGroup], resources=[policy.resource])
        if policy.nonResourcePath:
            yield PolicyRule(verbs=verbs, nonResourceURLs=[policy.nonResourcePath])


def _allows(policy: AbacPolicy, attributes: Attributes) -> bool:
    if not _is_subject(policy, attributes.user) or (policy.readonly and attributes.verb not in _READS):
        return False
    if not attributes.is_resource:
        return _fits_path(policy.nonResourcePath, attributes.path)
    pairs = (
        (policy.namespace, attributes.namespace),
        (policy.resource, attributes.resource),
        (policy.apiGroup, attributes.group),
    )
    return all(pattern in ("*", value) for pattern, value in pairs)


def _is_subject(policy: AbacPolicy, user: UserInfo) -> bool:
    """Whether the policy applies to the user. If it names both user and group, both must match; `*` matches every
    authenticated user."""
    if not policy.user and not policy.group:
        return False
    is_known = UNAUTHENTICATED not in user.groups
    by_user = not policy.user or policy.user == user.name or (policy.user == "*" and is_known)
    by_group = not policy.group or policy.group in user.groups or (policy.group == "*" and is_known)
    return by_user and by_group


def _fits_path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))
