"""The file of --authorization-config: which authorizers are asked, in order, and how webhooks are reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sampan.api import durations, names
from sampan.apiserver.authz.decisions import Verdict
from sampan.apiserver.authz.modes import Mode
from sampan.apiserver.authz.webhook import Version, WebhookSettings
from sampan.apiserver.config_file import ConfigFault, read_config
from sampan.apiserver.remote_review import Patience
from sampan.machinery.client.access import Access

GROUP, KIND = "apiserver.config.k8s.io", "AuthorizationConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
WEBHOOK = "Webhook"
TYPES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK)
_FAILURE = {"NoOpinion": Verdict.UNDECIDED, "Deny": Verdict.REFUSED}
_MOST_S = 30


class _Connection(msgspec.Struct, forbid_unknown_fields=True):
    type: str = ""
    kubeConfigFile: str | None = None


class _Webhook(msgspec.Struct, forbid_unknown_fields=True):
    authorizedTTL: str = "5m"
    cacheAuthorizedRequests: bool = True
    unauthorizedTTL: str = "30s"
    cacheUnauthorizedRequests: bool = True
    timeout: str = ""
    subjectAccessReviewVersion: str = ""
    matchConditionSubjectAccessReviewVersion: str = ""
    failurePolicy: str = ""
    connectionInfo: _Connection = msgspec.field(default_factory=_Connection)
    matchConditions: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Authorizer(msgspec.Struct, forbid_unknown_fields=True):
    type: str = ""
    name: str = ""
    webhook: _Webhook | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    authorizers: list[_Authorizer] = msgspec.field(default_factory=list)


def read_authorization(path: Path) -> list[Mode]:
    """The authorizers by their names, webhooks with their settings; `ConfigFault` names the field that is wrong."""
    file = read_config(path, _File, group=GROUP, versions=VERSIONS, kind=KIND)
    if not file.authorizers:
        raise ConfigFault("authorizers: at least one authorization mode must be defined")
    _check_names(file.authorizers)
    return list(_modes(file.authorizers))


def _modes(listed: Sequence[_Authorizer]) -> Iterator[Mode]:
    for index, one in enumerate(listed):
        at = f"authorizers[{index}]"
        if one.type == WEBHOOK:
            if one.webhook is None:
                raise ConfigFault(f"{at}.webhook: required when type=Webhook")
            yield _settings(one.name, one.webhook, f"{at}.webhook")
        elif one.webhook is not None:
            raise ConfigFault(f"{at}.webhook: may only be specified when type=Webhook")
        else:
            yield one.type


def _check_names(listed: Sequence[_Authorizer]) -> None:
    types, called = set(), set()
    for index, one in enumerate(listed):
        at = f"authorizers[{index}]"
        if one.type not in TYPES:
            raise ConfigFault(f"{at}.type: there is no {one.type!r}; known are {', '.join(TYPES)}")
        if one.type in types and one.type != WEBHOOK:
            raise ConfigFault(f"{at}.type: {one.type} is given twice")
        if not one.name:
            raise ConfigFault(f"{at}.name: is missing")
        if one.name in called:
            raise ConfigFault(f"{at}.name: {one.name!r} is given twice")
        if faults := names.dns1123_subdomain(one.name):
            raise ConfigFault(f"{at}.name: authorizer name is invalid: {', '.join(faults)}")
        types.add(one.type)
        called.add(one.name)


def _settings(name: str, webhook: _Webhook, at: str) -> WebhookSettings:
    if webhook.matchConditions:
        raise ConfigFault(f"{at}.matchConditions: conditions in CEL are not supported")
    if webhook.failurePolicy not in _FAILURE:
        raise ConfigFault(f"{at}.failurePolicy: must be NoOpinion or Deny")
    timeout_s = _seconds(webhook.timeout, f"{at}.timeout")
    if timeout_s > _MOST_S:
        raise ConfigFault(f"{at}.timeout: must be > 0s and <= {_MOST_S}s")
    allowed_s = _seconds(webhook.authorizedTTL, f"{at}.authorizedTTL")
    refused_s = _seconds(webhook.unauthorizedTTL, f"{at}.unauthorizedTTL")
    return WebhookSettings(
        access=_access(webhook.connectionInfo, f"{at}.connectionInfo"),
        name=name,
        version=_version(webhook.subjectAccessReviewVersion, f"{at}.subjectAccessReviewVersion"),
        allowed_s=allowed_s if webhook.cacheAuthorizedRequests else 0,
        refused_s=refused_s if webhook.cacheUnauthorizedRequests else 0,
        patience=Patience(timeout_s=timeout_s),
        on_failure=_FAILURE[webhook.failurePolicy],
    )


def _version(text: str, at: str) -> Version:
    if text == "v1":
        return "v1"
    if text == "v1beta1":
        return "v1beta1"
    raise ConfigFault(f"{at}: must be v1 or v1beta1")


def _seconds(text: str, at: str) -> float:
    try:
        found = durations.parse_duration(text) / 1e9 if text else 0
    except ValueError as fault:
        raise ConfigFault(f"{at}: {fault}") from None
    if found <= 0:
        raise ConfigFault(f"{at}: must be > 0s")
    return found


def _access(connection: _Connection, at: str) -> Access:
    from sampan.machinery.client import kubeconfig

    try:
        if connection.type == "InClusterConfig":
            if connection.kubeConfigFile is not None:
                raise ConfigFault(f"{at}.kubeConfigFile: can only be set when type=KubeConfigFile")
            return kubeconfig.in_cluster()
        if connection.type != "KubeConfigFile":
            raise ConfigFault(f"{at}.type: must be KubeConfigFile or InClusterConfig")
        if not connection.kubeConfigFile or not connection.kubeConfigFile.startswith("/"):
            raise ConfigFault(f"{at}.kubeConfigFile: must be an absolute path")
        return kubeconfig.load(Path(connection.kubeConfigFile))
    except (kubeconfig.KubeconfigError, OSError) as fault:
        raise ConfigFault(f"{at}: {fault}") from None


__all__ = ["read_authorization"]
