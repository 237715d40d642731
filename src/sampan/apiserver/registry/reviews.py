"""The parts that review kinds share. Reviews are requests about users and permissions, which are answered in the
response and not stored.

The counterparts are `pkg/registry/authentication` and `pkg/registry/authorization`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api import limits, names
from sampan.api.codec import json
from sampan.api.field_errors import FieldError
from sampan.api.selectors import fields, labels
from sampan.api.types import authentication_v1
from sampan.api.types.authorization_v1 import (
    LocalSubjectAccessReview,
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.authz import Attributes, AuthzDecision, AuthzResult
from sampan.apiserver.fieldmanager import manager_name
from sampan.apiserver.request import bodies, options
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.response.responses import ValueResponse
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.registry.strategy_services import AuthServices
    from sampan.apiserver.request.call import Call, UserInfo
    from sampan.apiserver.response.responses import ValueResponse


GROUP = "authorization.k8s.io"
_RESOURCE, _PATH = "spec.resourceAttributes", "spec.nonResourceAttributes"
Spec = SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec


async def review_access(
    endpoints: ApiEndpoints,
    call: Call,
    validate: Callable[[Any], Iterable[FieldError]],
    user_of: Callable[[Any], UserInfo],
) -> ValueResponse:
    """Serve an access review: set its status to the decision about `user_of(spec)`."""
    review = await read_review(endpoints, call)
    await check(endpoints, call, GROUP, partial(validate, review))
    attributes, selector_errors = await endpoints.compute(
        call, lambda: (_attributes_of(review.spec, user_of(review.spec)), _selector_errors(review.spec))
    )
    result = await security_of(endpoints).authorizer.authorize(attributes)
    review.status = _status_of(result, selector_errors)
    return await review_response(endpoints, call, review)


def _status_of(result: AuthzResult, selector_errors: Sequence[str]) -> SubjectAccessReviewStatus:
    evaluation_errors = [*([result.error] if result.error else []), *selector_errors]
    return SubjectAccessReviewStatus(
        allowed=result.decision is AuthzDecision.ALLOW,
        denied=result.decision is AuthzDecision.DENY,
        reason=result.reason,
        evaluationError="; ".join(evaluation_errors),
    )


def subject(spec: SubjectAccessReviewSpec) -> UserInfo:
    extra = {key: tuple(values) for key, values in spec.extra.items()}
    return UserInfo(spec.user, spec.uid, tuple(spec.groups), extra)


def _attributes_of(spec: Spec, user: UserInfo) -> Attributes:
    path, attributes = spec.nonResourceAttributes, spec.resourceAttributes
    if attributes is None:
        path = path or NonResourceAttributes()
        return Attributes(user, path.verb, path.path, is_resource=False)
    return Attributes(
        user=user,
        verb=attributes.verb,
        group=attributes.group,
        version=attributes.version,
        resource=attributes.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
        field_selector=_field_selector(attributes),
        label_selector=_label_selector(attributes),
    )


def _selector_errors(spec: Spec) -> list[str]:
    """Return an error for each selector of which authorizers cannot use all requirements."""
    return list(_list_unusable_selectors(spec.resourceAttributes)) if spec.resourceAttributes is not None else []


def _list_unusable_selectors(attributes: ResourceAttributes) -> Iterator[str]:
    for name, selector, parse, is_valid in (
        ("fieldSelector", attributes.fieldSelector, fields.parse, _is_field_term),
        ("labelSelector", attributes.labelSelector, labels.parse, _label_term),
    ):
        if selector is None:
            continue
        terms = selector.requirements
        if selector.rawSelector and not terms:
            usable, count = int(_parses(parse, selector.rawSelector)), 1
        else:
            usable, count = sum(bool(is_valid(term)) for term in terms), len(terms)
        if usable < count:
            yield f"{_RESOURCE}.{name} {'partially ' if usable else ''}ignored due to parse error"


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except (fields.FieldSelectorError, labels.SelectorError):
        return False
    return True


def _is_field_term(term: Any) -> bool:
    return term.operator in ("In", "NotIn") and len(term.values) == 1


def _field_selector(attributes: ResourceAttributes) -> str:
    """Return the requirements with a single value as a field selector; authorizers cannot use others."""
    selector = attributes.fieldSelector
    if selector is None:
        return ""
    single = [term for term in selector.requirements if _is_field_term(term)]
    signs = {"In": "=", "NotIn": "!="}
    return selector.rawSelector or ",".join(f"{term.key}{signs[term.operator]}{term.values[0]}" for term in single)


def _label_selector(attributes: ResourceAttributes) -> str:
    selector = attributes.labelSelector
    if selector is None:
        return ""
    return selector.rawSelector or ",".join(filter(None, map(_label_term, selector.requirements)))


def _label_term(term: Any) -> str:
    values = f"({','.join(term.values)})"
    forms = {"In": f"{term.key} in {values}", "NotIn": f"{term.key} notin {values}"}
    return str({**forms, "Exists": term.key, "DoesNotExist": f"!{term.key}"}.get(term.operator, ""))


# -- validation --------------------------------------------------------------------------------------------------------


def validate_attributes(spec: Spec) -> Iterator[FieldError]:
    path, attributes = spec.nonResourceAttributes, spec.resourceAttributes
    if (path is None) == (attributes is None):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield FieldError.invalid("spec", None if path is None else _encode_path(path), text)


def validate_subject(spec: SubjectAccessReviewSpec) -> Iterator[FieldError]:
    if not spec.user and not spec.groups:
        yield FieldError.invalid("spec.user", "", "at least one of user or group must be specified")
    if len(spec.groups) > limits.REVIEWED_GROUPS:
        yield FieldError.too_many("spec.groups", len(spec.groups), limits.REVIEWED_GROUPS)


def validate_selectors(attributes: ResourceAttributes | None) -> Iterator[FieldError]:
    for name, selector in (
        ("fieldSelector", attributes.fieldSelector if attributes else None),
        ("labelSelector", attributes.labelSelector if attributes else None),
    ):
        if selector is not None:
            yield from _validate_selector(selector, f"{_RESOURCE}.{name}", is_labels=name == "labelSelector")


def _validate_selector(selector: Any, path: str, *, is_labels: bool) -> Iterator[FieldError]:
    if selector.rawSelector and selector.requirements:
        text = "may not specified at the same time as requirements"
        yield FieldError.invalid(f"{path}.rawSelector", selector.rawSelector, text)
    if not selector.rawSelector and not selector.requirements:
        text = f"when {path} is specified, requirements or rawSelector is required"
        yield FieldError.required(f"{path}.requirements", text)
    for index, term in enumerate(selector.requirements):
        yield from _validate_selector_term(term, f"{path}.requirements[{index}]", is_labels)


def _validate_selector_term(term: Any, path: str, is_labels: bool) -> Iterator[FieldError]:
    if not term.key and not is_labels:
        yield FieldError.required(f"{path}.key", "must be specified")
    if term.operator in ("In", "NotIn") and not term.values:
        yield FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if term.operator in ("Exists", "DoesNotExist") and term.values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield FieldError.forbidden(f"{path}.values", text)
    if is_labels:
        for text in names.label_key(term.key):
            yield FieldError.invalid(f"{path}.key", term.key, text)
        for index, value in enumerate(term.values):
            for text in names.label_value(value):
                yield FieldError.invalid(f"{path}.values[{index}]", value, text)


def validate_metadata(meta: ObjectMeta, *, may_have_namespace: bool = False) -> Iterator[FieldError]:
    """Yield an error if a review has metadata; managedFields are set by the server itself and ignored."""
    bare = msgspec.structs.replace(meta, managedFields=[], namespace="" if may_have_namespace else meta.namespace)
    if bare != ObjectMeta():
        text = "must be empty except for namespace" if may_have_namespace else "must be empty"
        yield FieldError.invalid("metadata", msgspec.Raw(msgspec.json.encode(meta)), text)


def validate_subject_review(review: SubjectAccessReview | LocalSubjectAccessReview) -> Iterator[FieldError]:
    spec = review.spec
    yield from validate_attributes(spec)
    yield from validate_subject(spec)
    yield from validate_selectors(spec.resourceAttributes)


def validate_local_review(review: LocalSubjectAccessReview) -> Iterator[FieldError]:
    path, attributes = review.spec.nonResourceAttributes, review.spec.resourceAttributes
    if attributes is not None and attributes.namespace != review.metadata.namespace:
        text = "must match metadata.namespace"
        yield FieldError.invalid(f"{_RESOURCE}.namespace", attributes.namespace, text)
    if path is not None:
        yield FieldError.invalid(_PATH, _encode_path(path), "disallowed on this kind of request")


def _encode_path(path: NonResourceAttributes) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"Path": path.path, "Verb": path.verb}))


async def read_review(endpoints: ApiEndpoints, call: Call) -> Any:
    """Return the review in the request body after admission."""
    resource = call.resource
    assert resource is not None
    opts = options.write_options("CreateOptions", call.query)
    review = await endpoints.read_object(call, endpoints.codec(resource), opts.field_validation)
    bodies.match_namespace(call, review)
    ctx = endpoints.context(call, opts.dry_run)
    manager = manager_name(opts.field_manager, call.user_agent)
    await ctx.compute(partial(endpoints.ownership.record_create, resource, review, manager=manager, now=ctx.now))
    attributes = endpoints.attributes("CREATE", call, review, None, ctx)
    await endpoints.admission.admit(attributes)
    await endpoints.admission.validate(attributes)
    return review


async def review_response(endpoints: ApiEndpoints, call: Call, review: Any) -> ValueResponse:
    return ValueResponse(await endpoints.compute(call, json.to_value, review), 201)


async def check(endpoints: ApiEndpoints, call: Call, group: str, validate: Callable[[], Iterable[FieldError]]) -> None:
    """Raise Invalid if validation yields errors; like kube-apiserver, without naming the kind."""

    def run() -> None:
        if field_errors := list(validate()):
            raise errors.invalid("", "", field_errors, group=group)

    await endpoints.compute(call, run)


def security_of(endpoints: ApiEndpoints) -> AuthServices:
    security = endpoints.services.security
    if security is None:
        raise errors.generic(404)
    return security


def user_info(user: UserInfo) -> authentication_v1.UserInfo:
    """Return the user as the UserInfo of a review."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return authentication_v1.UserInfo(username=user.name, uid=user.uid, groups=list(user.groups), extra=extra)
