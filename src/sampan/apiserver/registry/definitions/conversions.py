"""How objects get from one version of a custom resource to another."""

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.apiextensions_v1 import CustomResourceConversion
from sampan.apiserver.registry.hooks.clients import client_faults
from sampan.apiserver.registry.podspec.formats import Faults, one_of

_STRATEGIES = ("None", "Webhook")
_REVIEWS = ("v1", "v1beta1")


def conversion_faults(conversion: CustomResourceConversion, old: CustomResourceConversion | None, at: str) -> Faults:
    yield from one_of(conversion.strategy, _STRATEGIES, f"{at}.strategy")
    webhook = conversion.webhook
    client, versions = (webhook.clientConfig, webhook.conversionReviewVersions) if webhook is not None else (None, None)
    if conversion.strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield FieldError.forbidden(f"{at}.webhookClientConfig", text)
        if versions:
            yield FieldError.forbidden(f"{at}.conversionReviewVersions", text)
        return
    if client is None:
        yield FieldError.required(f"{at}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_faults(client, f"{at}.webhookClientConfig")
    yield from _review_faults(versions or [], f"{at}.conversionReviewVersions", needs_known=_is_known(old))


def _is_known(conversion: CustomResourceConversion | None) -> bool:
    """Whether a version that this server knows is asked for, or none at all."""
    webhook = conversion.webhook if conversion is not None else None
    versions = webhook.conversionReviewVersions if webhook is not None else None
    return not versions or bool(set(versions) & set(_REVIEWS))


def _review_faults(versions: list[str], at: str, *, needs_known: bool) -> Faults:
    if not versions:
        yield FieldError.required(at)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield FieldError.invalid(f"{at}[{index}]", version, "duplicate version")
            continue
        for text in names.dns1035_label(version):
            yield FieldError.invalid(f"{at}[{index}]", version, text)
    if needs_known and not set(versions) & set(_REVIEWS):
        yield FieldError.invalid(at, versions, f"must include at least one of {', '.join(_REVIEWS)}")
