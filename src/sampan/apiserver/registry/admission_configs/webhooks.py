"""The common behavior of validating and mutating webhook configurations."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api import domains
from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.admissionregistration_v1 import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.admission_configs.clients import DEFAULT_PORT, validate_client_config
from sampan.apiserver.registry.admission_configs.matching import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    default_rules,
    validate_match_conditions,
    validate_rule_with_operations,
)
from sampan.apiserver.registry.admission_configs.review_versions import ONE_OF_THEM, has_known, validate_review_versions
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_optional_one_of, validate_unique
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME

Hook = ValidatingWebhook | MutatingWebhook
Configuration = ValidatingWebhookConfiguration | MutatingWebhookConfiguration

_NO_EFFECTS = ("None", "NoneOnDryRun")
_EFFECTS = (*_NO_EFFECTS, "Some", "Unknown")
_TIMEOUT_S, _LONGEST_S = 10, 30


class WebhookStrategy(Strategy):
    allow_unconditional_update = False
    counts_generation = True
    validates_whole = True
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
        return _validate_webhooks(obj.webhooks, None)

    def validate_update(self, ctx: Context, obj: Configuration, old: Configuration) -> Iterable[FieldError]:
        return _validate_webhooks(obj.webhooks, old.webhooks)


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
        hook.timeoutSeconds = _TIMEOUT_S
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
        selector_faults(selector, "") for hook in before for selector in (hook.namespaceSelector, hook.objectSelector)
    )
    same_conditions = old is not None and [h.matchConditions for h in hooks] == [h.matchConditions for h in old]
    hook_names: set[str] = set()
    for index, hook in enumerate(hooks):
        at = f"webhooks[{index}]"
        yield from _validate_webhook(hook, at, effects, allow_bad_values)
        if not same_conditions:
            yield from validate_match_conditions(hook.matchConditions, f"{at}.matchConditions")
        versions = hook.admissionReviewVersions or []
        at_versions = f"{at}.admissionReviewVersions"
        yield from validate_review_versions(versions, at_versions, needs_known=needs_review, missing=ONE_OF_THEM)
        if needs_unique and hook.name:
            yield from validate_unique(hook.name, hook_names, f"{at}.name")


def _validate_webhook(hook: Hook, at: str, effects: Sequence[str], allow_bad_values: bool) -> FieldErrors:
    yield from domains.fully_qualified_name(hook.name, f"{at}.name")
    for index, rule in enumerate(hook.rules):
        yield from validate_rule_with_operations(rule, f"{at}.rules[{index}]")
    yield from validate_optional_one_of(hook.failurePolicy, FAILURE_POLICIES, f"{at}.failurePolicy")
    yield from validate_optional_one_of(hook.matchPolicy, MATCH_POLICIES, f"{at}.matchPolicy")
    if hook.sideEffects is None:
        yield FieldError.required(f"{at}.sideEffects", f"must specify one of {', '.join(effects)}")
    yield from validate_optional_one_of(hook.sideEffects, effects, f"{at}.sideEffects")
    if hook.timeoutSeconds is not None and not 1 <= hook.timeoutSeconds <= _LONGEST_S:
        text = f"the timeout value must be between 1 and {_LONGEST_S} seconds"
        yield FieldError.invalid(f"{at}.timeoutSeconds", hook.timeoutSeconds, text)
    for name in ("namespaceSelector", "objectSelector"):
        yield from selector_faults(getattr(hook, name), f"{at}.{name}", allow_bad_values=allow_bad_values)
    if isinstance(hook, MutatingWebhook):
        yield from validate_optional_one_of(hook.reinvocationPolicy, REINVOCATION_POLICIES, f"{at}.reinvocationPolicy")
    yield from validate_client_config(hook.clientConfig, f"{at}.clientConfig")
