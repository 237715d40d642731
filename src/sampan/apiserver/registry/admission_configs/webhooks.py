"""Webhook configurations: validation of webhooks, of their client configuration and of their review versions."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.admissionregistration_v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.admission_configs.match_resources import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    default_rules,
    validate_match_conditions,
    validate_rule_with_operations,
)
from sampan.apiserver.registry.admission_configs.reserved_names import ReservedNamesStrategy, validate_new_name
from sampan.apiserver.registry.strategy import Column, Context
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_optional_one_of,
    validate_required,
    validate_unique,
)
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.apiserver.webhooks.client import WebhookLocation, WebhookService
from sampan.machinery.cel.admission import match_condition_environment

_REVIEW_VERSIONS = ("v1", "v1beta1")
MISSING_REVIEW_VERSION_ERROR = f"must specify one of {', '.join(_REVIEW_VERSIONS)}"


def has_known(versions: Sequence[str]) -> bool:
    return not set(versions).isdisjoint(_REVIEW_VERSIONS)


def validate_review_versions(
    versions: Sequence[str], path: str, *, needs_known: bool, missing: str = ""
) -> FieldErrors:
    """Yield the errors of a list of review versions. `missing` is the message if the list is empty."""
    if not versions:
        yield FieldError.required(path, missing)
        return
    distinct_versions: set[str] = set()
    for index, version in enumerate(versions):
        if version in distinct_versions:
            yield FieldError.invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        distinct_versions.add(version)
        for text in names.dns1035_label(version):
            yield FieldError.invalid(f"{path}[{index}]", version, text)
    if needs_known and not has_known(versions):
        yield FieldError.invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


DEFAULT_PORT = 443
_FORM = "; desired format: https://host[/path]"


def validate_client_config(config: WebhookLocation, path: str) -> FieldErrors:
    if (config.url is None) == (config.service is None):
        yield FieldError.required(path, "exactly one of url or service is required")
    elif config.url is not None:
        yield from _validate_url(config.url, f"{path}.url")
    elif config.service is not None:
        yield from validate_service_reference(config.service, f"{path}.service")


def _validate_url(text: str, path: str) -> FieldErrors:
    try:
        url = urlsplit(text)
        host = url.netloc.rpartition("@")[2]
        url.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        yield FieldError.required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if url.scheme != "https":
        yield FieldError.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield FieldError.invalid(path, "", f"host must be specified{_FORM}")
    yield from _validate_url_parts(url, path)


def _validate_url_parts(url: SplitResult, path: str) -> FieldErrors:
    user, mark, _ = url.netloc.rpartition("@")
    if mark:
        yield FieldError.invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        yield FieldError.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield FieldError.invalid(path, url.query, "query parameters are not permitted in the URL")


def validate_service_reference(service: WebhookService, path: str) -> FieldErrors:
    """Yield the errors of a service. As in kube-apiserver, a missing namespace is reported as a missing name, and vice
    versa."""
    yield from validate_required(service.namespace, f"{path}.name")
    yield from validate_required(service.name, f"{path}.namespace")
    port = service.port if service.port is not None else DEFAULT_PORT
    if messages := names.port_number(port):
        yield FieldError.invalid(f"{path}.port", port, f"port is not valid: {', '.join(messages)}")
    if service.path not in (None, "", "/"):
        yield from _validate_path(service.path or "", f"{path}.path")


def _validate_path(path: str, field_path: str) -> FieldErrors:
    if path == "//":
        yield FieldError.invalid(field_path, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield FieldError.invalid(field_path, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield FieldError.invalid(field_path, path, f"segment[{index}] may not be empty")
        for text in names.dns1123_subdomain(step) if step else ():
            yield FieldError.invalid(field_path, path, f"segment[{index}]: {text}")


Hook = ValidatingWebhook | MutatingWebhook
Configuration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration

_NO_EFFECTS = ("None", "NoneOnDryRun")
_EFFECTS = (*_NO_EFFECTS, "Some", "Unknown")
_DEFAULT_TIMEOUT_S, _MAX_TIMEOUT_S = 10, 30


class WebhookStrategy(ReservedNamesStrategy):
    has_expressions = True
    allow_unconditional_update = False
    counts_generation = True
    columns = (
        NAME,
        Column(
            "Webhooks",
            lambda configuration, now: len(configuration.webhooks),
            type="integer",
            description="Webhooks indicates the number of webhooks registered in this configuration",
        ),
        AGE,
    )

    def spec_of(self, obj: Configuration) -> Any:
        return obj.webhooks

    def default(self, obj: Configuration) -> None:
        for hook in obj.webhooks:
            _default(hook)

    def validate_create(self, ctx: Context, obj: Configuration) -> Iterable[FieldError]:
        yield from _validate_webhooks(obj.webhooks, None)
        yield from validate_new_name(ctx, obj)

    def validate_update(self, ctx: Context, obj: Configuration, old: Configuration) -> Iterable[FieldError]:
        return _validate_webhooks(obj.webhooks, old.webhooks)

    def warnings(self, ctx: Context, obj: Configuration, old: Configuration | None) -> Iterable[str]:
        """Yield a warning for each rule that names a resource whose requests are never sent to webhooks."""
        if not ctx.is_enabled("ExcludeAdmissionWebhookVirtualResources"):
            return
        hooks: Sequence[Hook] = obj.webhooks
        for index, hook in enumerate(hooks):
            for rule_index, rule in enumerate(hook.rules):
                for resource in _list_excluded_resources(rule):
                    path = f"webhooks[{index}].rules[{rule_index}]"
                    yield f"{path}: {resource} is excluded from admission webhooks; this rule will have no effect"


_EXCLUDED_RESOURCES = frozenset({
    "localsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "tokenreviews.authentication.k8s.io",
})  # fmt: skip


def _list_excluded_resources(rule: RuleWithOperations) -> list[str]:
    """Return the excluded resources that a rule names; wildcards can mean other resources."""
    groups, resources = rule.apiGroups or (), rule.resources or ()
    if "*" in groups or "*" in resources:
        return []
    named = [
        (groups.index(group), resources.index(resource), f"{resource}.{group}")
        for resource, _, group in (name.partition(".") for name in _EXCLUDED_RESOURCES)
        if group in groups and resource in resources
    ]
    return [name for _, _, name in sorted(named)]


def _default(hook: Hook) -> None:
    if hook.failurePolicy is None:
        hook.failurePolicy = "Fail"
    if hook.matchPolicy is None:
        hook.matchPolicy = "Equivalent"
    if hook.namespaceSelector is None:
        hook.namespaceSelector = LabelSelector()
    if hook.objectSelector is None:
        hook.objectSelector = LabelSelector()
    if hook.timeoutSeconds is None:
        hook.timeoutSeconds = _DEFAULT_TIMEOUT_S
    if hook.clientConfig.service is not None and hook.clientConfig.service.port is None:
        hook.clientConfig.service.port = DEFAULT_PORT
    if isinstance(hook, MutatingWebhook) and hook.reinvocationPolicy is None:
        hook.reinvocationPolicy = "Never"
    default_rules(hook.rules)


def _validate_webhooks(hooks: Sequence[Hook], old: Sequence[Hook] | None) -> FieldErrors:
    """Yield the errors of all webhooks; some kinds of invalid values are tolerated if the old object has them."""
    before: Sequence[Hook] = old or ()
    effects = _NO_EFFECTS if all(hook.sideEffects in _NO_EFFECTS for hook in before) else _EFFECTS
    needs_review = all(has_known(hook.admissionReviewVersions) for hook in before if hook.admissionReviewVersions)
    needs_unique = len({hook.name for hook in before}) == len(before)
    allow_bad_values = any(
        selector_errors(selector, "") for hook in before for selector in (hook.namespaceSelector, hook.objectSelector)
    )
    same_conditions = old is not None and [h.matchConditions for h in hooks] == [h.matchConditions for h in old]
    hook_names: set[str] = set()
    for index, hook in enumerate(hooks):
        path = f"webhooks[{index}]"
        yield from _validate_webhook(hook, path, effects, allow_bad_values)
        if not same_conditions:
            yield from validate_match_conditions(
                hook.matchConditions, f"{path}.matchConditions", match_condition_environment
            )
        versions = hook.admissionReviewVersions or []
        at_versions = f"{path}.admissionReviewVersions"
        yield from validate_review_versions(
            versions, at_versions, needs_known=needs_review, missing=MISSING_REVIEW_VERSION_ERROR
        )
        if needs_unique and hook.name:
            yield from validate_unique(hook.name, hook_names, f"{path}.name")


def _validate_webhook(hook: Hook, path: str, effects: Sequence[str], allow_bad_values: bool) -> FieldErrors:
    yield from names.fully_qualified_name(hook.name, f"{path}.name")
    for index, rule in enumerate(hook.rules):
        yield from validate_rule_with_operations(rule, f"{path}.rules[{index}]")
    yield from validate_optional_one_of(hook.failurePolicy, FAILURE_POLICIES, f"{path}.failurePolicy")
    yield from validate_optional_one_of(hook.matchPolicy, MATCH_POLICIES, f"{path}.matchPolicy")
    if hook.sideEffects is None:
        yield FieldError.required(f"{path}.sideEffects", f"must specify one of {', '.join(effects)}")
    yield from validate_optional_one_of(hook.sideEffects, effects, f"{path}.sideEffects")
    if hook.timeoutSeconds is not None and not 1 <= hook.timeoutSeconds <= _MAX_TIMEOUT_S:
        text = f"the timeout value must be between 1 and {_MAX_TIMEOUT_S} seconds"
        yield FieldError.invalid(f"{path}.timeoutSeconds", hook.timeoutSeconds, text)
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_errors(getattr(hook, name), f"{path}.{name}", allow_bad_values=allow_bad_values)
    if isinstance(hook, MutatingWebhook):
        yield from validate_optional_one_of(
            hook.reinvocationPolicy, REINVOCATION_POLICIES, f"{path}.reinvocationPolicy"
        )
    yield from validate_client_config(hook.clientConfig, f"{path}.clientConfig")
