"""The AuthorizationConfiguration file of --authorization-config: the authorizers, in order, and their webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.field_errors import FieldPath as Field
from sampan.api.values import durations
from sampan.apiserver.authz.authorizer import AuthzDecision
from sampan.apiserver.authz.modes import Mode, NamedMode
from sampan.apiserver.authz.webhook import WebhookSettings, compile_condition
from sampan.apiserver.config.config_file import raise_errors, read_config
from sampan.apiserver.webhooks.remote_webhook import RetryPolicy
from sampan.machinery.cel.errors import CelError
from sampan.machinery.client.access import Access
from sampan.machinery.config_file import ConfigFileError

GROUP, KIND = "apiserver.config.k8s.io", "AuthorizationConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
WEBHOOK = "Webhook"
TYPES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", WEBHOOK)
_FAILURE = {"NoOpinion": AuthzDecision.NO_OPINION, "Deny": AuthzDecision.DENY}
_MAX_TIMEOUT_S = 30
_MAX_MATCH_CONDITIONS = 64
IN_CLUSTER_CONFIG = "InClusterConfig"
CONNECTIONS = (IN_CLUSTER_CONFIG, "KubeConfigFile")


class _ConnectionInfo(msgspec.Struct, forbid_unknown_fields=True):
    type: str = ""
    kubeConfigFile: str | None = None


class _MatchCondition(msgspec.Struct, forbid_unknown_fields=True):
    expression: str = ""


class _WebhookConfig(msgspec.Struct, forbid_unknown_fields=True):
    authorizedTTL: str = "5m"
    cacheAuthorizedRequests: bool = True
    unauthorizedTTL: str = "30s"
    cacheUnauthorizedRequests: bool = True
    timeout: str = ""
    subjectAccessReviewVersion: str = ""
    matchConditionSubjectAccessReviewVersion: str = ""
    failurePolicy: str = ""
    connectionInfo: _ConnectionInfo = msgspec.field(default_factory=_ConnectionInfo)
    matchConditions: list[_MatchCondition] = msgspec.field(default_factory=list)


class _AuthorizerConfig(msgspec.Struct, forbid_unknown_fields=True):
    type: str = ""
    name: str = ""
    webhook: _WebhookConfig | None = None


class _AuthorizationFile(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    authorizers: list[_AuthorizerConfig] = msgspec.field(default_factory=list)


def read_authorization(path: Path) -> list[Mode]:
    """Return the modes: the names of authorizers, or the settings of webhooks. Raise `ConfigFileError` with the invalid
    fields."""
    file = read_config(path, _AuthorizationFile, group=GROUP, versions=VERSIONS, kind=KIND)
    raise_errors(_authorizer_list_errors(file.authorizers))
    return [_mode(authorizer, f"authorizers[{index}]") for index, authorizer in enumerate(file.authorizers)]


def _mode(authorizer: _AuthorizerConfig, path: str) -> Mode:
    if authorizer.webhook is None:
        return NamedMode(authorizer.type, authorizer.name)
    webhook = authorizer.webhook
    allowed_s, refused_s = (_seconds(text) for text in (webhook.authorizedTTL, webhook.unauthorizedTTL))
    return WebhookSettings(
        access=_access(webhook.connectionInfo, f"{path}.webhook.connectionInfo"),
        name=authorizer.name,
        version="v1" if webhook.subjectAccessReviewVersion == "v1" else "v1beta1",
        allowed_s=allowed_s if webhook.cacheAuthorizedRequests else 0,
        refused_s=refused_s if webhook.cacheUnauthorizedRequests else 0,
        retry_policy=RetryPolicy(timeout_s=_seconds(webhook.timeout)),
        on_failure=_FAILURE[webhook.failurePolicy],
        conditions=tuple(compile_condition(condition.expression) for condition in webhook.matchConditions),
    )


def _authorizer_list_errors(listed: Sequence[_AuthorizerConfig]) -> list[FieldError]:
    within = Field("authorizers")
    if not listed:
        return [FieldError.required(within, "at least one authorization mode must be defined")]
    used_types: set[str] = set()
    used_names: set[str] = set()
    return [
        error
        for index, authorizer in enumerate(listed)
        for error in _authorizer_errors(authorizer, within[index], used_types, used_names)
    ]


def _authorizer_errors(
    authorizer: _AuthorizerConfig, path: Field, used_types: set[str], used_names: set[str]
) -> Iterator[FieldError]:
    """Validate one authorizer and add its type and name to the sets of those seen."""
    if not authorizer.type:
        yield FieldError.required(path / "type")
        return
    if authorizer.type not in TYPES:
        yield FieldError.not_supported(path / "type", authorizer.type, TYPES)
        return
    if authorizer.type in used_types and authorizer.type != WEBHOOK:
        yield FieldError.duplicate(path / "type", authorizer.type)
        return
    used_types.add(authorizer.type)
    yield from _name_errors(authorizer.name, path / "name", used_names)
    used_names.add(authorizer.name)
    if authorizer.type == WEBHOOK and authorizer.webhook is None:
        yield FieldError.required(path / "webhook", "required when type=Webhook")
    elif authorizer.type == WEBHOOK and authorizer.webhook is not None:
        yield from _webhook_errors(authorizer.webhook, path)
    elif authorizer.webhook is not None:
        yield FieldError.invalid(path / "webhook", "non-null", "may only be specified when type=Webhook")


def _name_errors(name: str, path: Field, used_names: set[str]) -> Iterator[FieldError]:
    if not name:
        yield FieldError.required(path)
    elif name in used_names:
        yield FieldError.duplicate(path, name)
    elif name_errors := names.dns1123_subdomain(name):
        yield FieldError.invalid(path, name, f"authorizer name is invalid: {', '.join(name_errors)}")


def _webhook_errors(webhook: _WebhookConfig, path: Field) -> Iterator[FieldError]:
    """Validate a webhook. Like kube-apiserver, the errors name its fields directly below the authorizer."""
    yield from _duration_errors(webhook.timeout, path / "timeout", "must be > 0s and <= 30s", max_s=_MAX_TIMEOUT_S)
    yield from _duration_errors(webhook.authorizedTTL, path / "authorizedTTL", "must be > 0s")
    yield from _duration_errors(webhook.unauthorizedTTL, path / "unauthorizedTTL", "must be > 0s")
    yield from _validate_choice(
        webhook.subjectAccessReviewVersion, path / "subjectAccessReviewVersion", ("v1", "v1beta1")
    )
    version, version_path = (
        webhook.matchConditionSubjectAccessReviewVersion,
        path / "matchConditionSubjectAccessReviewVersion",
    )
    if version:
        yield from _validate_choice(version, version_path, ("v1",))
    elif webhook.matchConditions:
        yield FieldError.required(version_path, "required if match conditions are specified")
    yield from _validate_choice(webhook.failurePolicy, path / "failurePolicy", tuple(_FAILURE))
    yield from _connection_errors(webhook.connectionInfo, path / "connectionInfo")
    yield from _condition_errors(
        [condition.expression for condition in webhook.matchConditions], path / "matchConditions"
    )


def _condition_errors(expressions: Sequence[str], within: Field) -> Iterator[FieldError]:
    if len(expressions) > _MAX_MATCH_CONDITIONS:
        yield FieldError.too_many(within, len(expressions), _MAX_MATCH_CONDITIONS)
        return
    for index, text in enumerate(expressions):
        path = within[index] / "expression"
        if not text.strip():
            yield FieldError.required(path)
        elif text in expressions[:index]:
            yield FieldError.duplicate(path, text)
        else:
            try:
                compile_condition(text)
            except CelError as error:
                yield FieldError.invalid(path, text, str(error))


def _validate_choice(value: str, path: Field, choices: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield FieldError.required(path)
    elif value not in choices:
        yield FieldError.not_supported(path, value, choices)


def _duration_errors(text: str, path: Field, words: str, max_s: float = inf) -> Iterator[FieldError]:
    try:
        duration_s = _seconds(text)
    except ValueError as error:
        yield FieldError.invalid(path, text, str(error))
        return
    if not duration_s:
        yield FieldError.required(path)
    elif not 0 < duration_s <= max_s:
        yield FieldError.invalid(path, text, words)


def _seconds(text: str) -> float:
    return durations.parse_duration(text) / 1e9 if text else 0


def _connection_errors(connection: _ConnectionInfo, path: Field) -> Iterator[FieldError]:
    if connection.type not in CONNECTIONS:
        yield from _validate_choice(connection.type, path / "type", CONNECTIONS)
        return
    file, file_path = connection.kubeConfigFile, path / "kubeConfigFile"
    if connection.type == IN_CLUSTER_CONFIG:
        if file is not None:
            yield FieldError.invalid(file_path, file, "can only be set when type=KubeConfigFile")
    elif not file:
        yield FieldError.required(file_path)
    elif not file.startswith("/"):
        yield FieldError.invalid(file_path, file, "must be an absolute path")
    elif not Path(file).exists():
        yield FieldError.invalid(file_path, file, f"error loading file: stat {file}: no such file or directory")
    elif not Path(file).is_file():
        yield FieldError.invalid(file_path, file, "must be a regular file")


def _access(connection: _ConnectionInfo, path: str) -> Access:
    from sampan.machinery.client import kubeconfig

    try:
        if connection.type == IN_CLUSTER_CONFIG:
            return kubeconfig.load_in_cluster()
        return kubeconfig.load(Path(connection.kubeConfigFile or ""))
    except (kubeconfig.KubeconfigError, OSError) as error:
        raise ConfigFileError(f"{path}: {error}") from None
