"""Validation and rounding of resource requests, limits and claims of containers and pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import NOT_FOUND, FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.names import HUGE_PAGES, is_extended_resource, is_huge_pages, is_native_resource
from sampan.api.semantics import pod_resources
from sampan.api.semantics.pod_references import CONFIG_MIRROR
from sampan.api.types.core_v1 import PodResourceClaim, PodSpec, ResourceClaim, ResourceRequirements
from sampan.api.values import quantity
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.registry.validation import NEGATIVE, FieldErrors, validate_dns_label
from sampan.host.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

MILLI = -3
_MAX_CACHED_LENGTH = 40

CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER_RESOURCES = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD = (
    CONTAINER_RESOURCES
    | _INTEGER_RESOURCES
    | {"storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in CONTAINER_RESOURCES}
)


def round_up(amounts: dict[str, str]) -> None:
    """Round quantities up to a multiple of one thousandth, in place."""
    for name, text in amounts.items():
        rounded = _rounded[text]
        if rounded != text:
            amounts[name] = rounded


def _round_up(text: str) -> str:
    return str(quantity.parse(text).round_up(MILLI))


_rounded = BoundedCache(_round_up, max_entries=8192, max_entry_bytes=512)


def is_divisible(name: str, amount: Quantity) -> bool:
    """Whether an amount of huge pages is a whole number of pages."""
    try:
        page = quantity.parse(name.removeprefix(HUGE_PAGES))
    except quantity.QuantityError:
        return False
    if page.sign <= 0 or page.milli_value() % 1000:
        return False
    return amount.value() % page.value() == 0


def may_overcommit(name: str) -> bool:
    return is_native_resource(name) and not is_huge_pages(name)


def is_integer_resource(name: str) -> bool:
    """Whether the resource is counted in integers."""
    return name in _INTEGER_RESOURCES or is_extended_resource(name)


def is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_pages(name) or name.startswith(f"requests.{HUGE_PAGES}")


def validate_resource_quantity(name: str, text: str, path: str) -> FieldErrors:
    """Yield errors for a quantity that is negative, or fractional although its resource is counted in integers."""
    if text.isdigit():
        return
    amount = quantity.parse(text)
    if amount.sign < 0:
        yield FieldError.invalid(path, text, NEGATIVE)
    if is_integer_resource(name) and amount.milli_value() % 1000:
        yield FieldError.invalid(path, text, "must be an integer")


ValidateResourceName = Callable[[str, str], FieldErrors]
_COMPUTE = frozenset({"cpu", "memory"})


def validate_container_resource_name(name: str, path: str) -> FieldErrors:
    if name in CONTAINER_RESOURCES:
        return
    yield from validate_resource_name(name, path)
    if "/" not in name:
        if not names.is_huge_pages(name):
            yield FieldError.invalid(path, name, "must be a standard resource for containers")
    elif not names.is_native_resource(name) and not names.is_extended_resource(name):
        yield FieldError.invalid(path, name, "doesn't follow extended resource name standard")


def validate_resource_name(name: str, path: str) -> FieldErrors:
    messages = names.qualified_name(name)
    for text in messages:
        yield FieldError.invalid(path, name, text)
    if not messages and "/" not in name and not is_standard(name):
        yield FieldError.invalid(path, name, "must be a standard resource type or fully qualified")


def _validate_pod_resource_name(name: str, path: str) -> FieldErrors:
    errors = list(validate_resource_name(name, path))
    yield from errors
    if not errors and not names.is_pod_level_resource(name):
        yield FieldError.not_supported(path, name, ("cpu", "hugepages-", "memory"))


def validate_quantity(name: str, amount: Quantity, path: str) -> FieldErrors:
    if amount.sign < 0:
        yield FieldError.invalid(path, str(amount), NEGATIVE)
    if is_integer_resource(name) and amount.milli_value() % 1000:
        yield FieldError.invalid(path, str(amount), "must be an integer")


def validate_resource_requirements(
    requirements: ResourceRequirements,
    options: PodValidationOptions,
    path: str,
    *,
    pod_claims: Collection[str] = (),
    validate_resource_name: ValidateResourceName = validate_container_resource_name,
) -> FieldErrors:
    limits, requests = requirements.limits, requirements.requests
    for name in sorted(limits) if len(limits) > 1 else limits:
        yield from _validate_resource_amount(
            name, parse(limits[name]), options, f"{path}.limits[{name}]", validate_resource_name
        )
    for name in sorted(requests) if len(requests) > 1 else requests:
        amount, is_plain = parse(requests[name]), name in _COMPUTE
        if not is_plain or amount.sign < 0:
            yield from _validate_resource_amount(
                name, amount, options, f"{path}.requests[{name}]", validate_resource_name
            )
        if not is_plain or name in limits:
            yield from _validate_at_most_limit(name, amount, limits, path)
    if not requests.keys() >= limits.keys() or not _COMPUTE.issuperset(requests):
        yield from _validate_huge_pages_have_cpu_or_memory({*limits, *requests}, path)
    if requirements.claims:
        yield from _validate_container_claims(requirements.claims, pod_claims, f"{path}.claims")


def _validate_huge_pages_have_cpu_or_memory(resource_names_set: Collection[str], path: str) -> FieldErrors:
    if any(map(names.is_huge_pages, resource_names_set)) and _COMPUTE.isdisjoint(resource_names_set):
        yield FieldError.forbidden(path, "HugePages require cpu or memory")


def _validate_resource_amount(
    name: str, amount: Quantity, options: PodValidationOptions, path: str, validate_resource_name: ValidateResourceName
) -> FieldErrors:
    yield from validate_resource_name(name, path)
    yield from validate_quantity(name, amount, path)
    if names.is_huge_pages(name) and not is_divisible(name, amount) and not options.uneven_huge_pages:
        yield FieldError.invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _validate_at_most_limit(name: str, amount: Quantity, limits: Mapping[str, str], path: str) -> FieldErrors:
    if name not in limits:
        if not may_overcommit(name):
            yield FieldError.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = parse(limits[name])
    if amount != limit and not may_overcommit(name):
        text = f"must be equal to {name} limit of {limit}"
        yield FieldError.invalid(f"{path}.requests", str(amount), text)
    elif amount > limit:
        text = f"must be less than or equal to {name} limit of {limit}"
        yield FieldError.invalid(f"{path}.requests", str(amount), text)


def _validate_container_claims(
    claims: Sequence[ResourceClaim], pod_claims: Collection[str], field_path: str
) -> FieldErrors:
    claim_names: set[str] = set()
    requests: Counter[str] = Counter()
    choices = f": {', '.join(sorted(pod_claims))}" if pod_claims else " which is empty"
    not_found = f"must be one of the names in pod.spec.resourceClaims{choices}"
    for index, claim in enumerate(claims):
        path, name = f"{field_path}[{index}]", claim.name
        if not name:
            yield FieldError.required(path)
            continue
        yield from _validate_unique_claim(claim, claim_names, requests, path)
        if name not in pod_claims:
            yield FieldError(NOT_FOUND, path, name, not_found)


def _validate_unique_claim(
    claim: ResourceClaim, known_claims: set[str], requests: Counter[str], path: str
) -> FieldErrors:
    """Yield errors if a claim, or a request of it, is used already.

    `requests` counts the claims and requests seen so far by the part of their key before the first slash.
    """
    name = claim.name
    if name in known_claims:
        yield FieldError.duplicate(path, name)
        return
    key = f"{name}/{claim.request}" if claim.request else name
    if claim.request:
        yield from validate_dns_label(claim.request, f"{path}.request")
        if key in known_claims:
            yield FieldError.duplicate(path, key)
    else:
        for _ in range(requests[name]):
            yield FieldError.duplicate(path, name)
    if key not in known_claims:
        known_claims.add(key)
        requests[key.partition("/")[0]] += 1


# -- pod-level resources -----------------------------------------------------------------------------------------------


def validate_pod_resources(
    spec: PodSpec, options: PodValidationOptions, pod_claims: Collection[str], path: str
) -> FieldErrors:
    """Yield the errors of `spec.resources`."""
    resources = spec.resources
    if resources is None:
        return
    if spec.os is not None and spec.os.name == "windows":
        yield FieldError.forbidden(path, "may not be set for a windows pod")
        return
    if resources.claims:
        yield FieldError.forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from validate_resource_requirements(
        resources, options, path, pod_claims=pod_claims, validate_resource_name=_validate_pod_resource_name
    )
    yield from _validate_container_sums(spec, resources, path)
    yield from _validate_container_limits(spec, resources, path)


def _validate_container_sums(spec: PodSpec, resources: ResourceRequirements, path: str) -> FieldErrors:
    for name, total in sorted(pod_resources.pod_requests(spec).items()):
        if name in resources.requests and total > parse(resources.requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {total}"
            yield FieldError.invalid(f"{path}.requests[{name}]", resources.requests[name], text)
    for name, total in sorted(pod_resources.pod_limits(spec).items()):
        if names.is_huge_pages(name) and name in resources.limits and total > parse(resources.limits[name]):
            text = f"must be greater than or equal to aggregate container limits of {total}"
            yield FieldError.invalid(f"{path}.limits[{name}]", resources.limits[name], text)


def _validate_container_limits(spec: PodSpec, resources: ResourceRequirements, path: str) -> FieldErrors:
    for index, container in enumerate(spec.containers or ()):
        for name, limit in sorted(container.resources.limits.items()):
            of_pod = resources.limits.get(name)
            if of_pod is not None and parse(limit) > parse(of_pod):
                text = f"must be less than or equal to pod limits of {of_pod}"
                yield FieldError.invalid(f"{path}.containers[{index}][{name}].limits", limit, text)


def validate_pod_resource_claims(
    claims: Sequence[PodResourceClaim], pod_annotations: Mapping[str, str], path: str
) -> FieldErrors:
    """Yield the errors of `spec.resourceClaims`."""
    claim_names: set[str] = set()
    for index, claim in enumerate(claims):
        if CONFIG_MIRROR in pod_annotations:
            yield FieldError.forbidden("[]", "static pods do not support resource claims")
            continue
        yield from _validate_claim_name(claim.name, claim_names, f"{path}[{index}].name")
        yield from _validate_claim_source(claim, f"{path}[{index}]")


def _validate_claim_name(name: str, known_names: set[str], path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path)
    elif name in known_names:
        yield FieldError.duplicate(path, name)
    else:
        yield from validate_dns_label(name, path)
        known_names.add(name)


def _validate_claim_source(claim: PodResourceClaim, path: str) -> FieldErrors:
    direct, template = claim.resourceClaimName, claim.resourceClaimTemplateName
    if direct is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield FieldError.invalid(path, encode_error_value(claim), text)
    if direct is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        yield FieldError.invalid(path, encode_error_value(claim), text)
    for field, name in (("resourceClaimName", direct), ("resourceClaimTemplateName", template)):
        if name is not None:
            for text in names.dns1123_subdomain(name):
                yield FieldError.invalid(f"{path}.{field}", name, text)
