"""Validation of the conversion between versions of a custom resource."""

from sampan.api.faults import FieldError
from sampan.api.types.apiextensions_v1 import CustomResourceConversion
from sampan.apiserver.registry.admission_configs.clients import validate_client_config
from sampan.apiserver.registry.admission_configs.review_versions import has_known, validate_review_versions
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_one_of

_STRATEGIES = ("None", "Webhook")


def validate_conversion(
    conversion: CustomResourceConversion, old: CustomResourceConversion | None, at: str
) -> FieldErrors:
    yield from validate_one_of(conversion.strategy, _STRATEGIES, f"{at}.strategy")
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
        yield from validate_client_config(client, f"{at}.webhookClientConfig")
    yield from validate_review_versions(versions or [], f"{at}.conversionReviewVersions", needs_known=_is_known(old))


def _is_known(conversion: CustomResourceConversion | None) -> bool:
    """Whether the conversion lists a known version of ConversionReview, or none at all."""
    webhook = conversion.webhook if conversion is not None else None
    versions = webhook.conversionReviewVersions if webhook is not None else None
    return not versions or has_known(versions)
