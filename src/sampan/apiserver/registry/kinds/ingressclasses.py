"""IngressClass: the controller that implements an ingress."""

from collections.abc import Iterable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.networking_v1 import IngressClass, IngressClassParametersReference
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_immutable,
    validate_typed_reference,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_IS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"
_CONTROLLER, _PARAMETERS = "spec.controller", "spec.parameters"
_MAX_CONTROLLER_LENGTH = 250
_SCOPES = ("Cluster", "Namespace")


def _name(ingress_class: IngressClass, now: float) -> str:
    is_default = ingress_class.metadata.annotations.get(_IS_DEFAULT) == "true"
    return f"{ingress_class.metadata.name} (default)" if is_default else ingress_class.metadata.name


def _parameters(ingress_class: IngressClass, now: float) -> str:
    parameters = ingress_class.spec.parameters
    if parameters is None:
        return cells.NONE
    group = f".{parameters.apiGroup}" if parameters.apiGroup is not None else ""
    return f"{parameters.kind}{group}/{parameters.name}"


_COLUMNS = (
    Column("Name", _name, format="name", field=NAME.field),
    Column(
        "Controller",
        lambda ingress_class, now: ingress_class.spec.controller,
        description="Controller that is responsible for handling this class",
    ),
    Column("Parameters", _parameters, description="A reference to a resource with additional parameters"),
    AGE,
)


class IngressClassStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True

    def default(self, obj: IngressClass) -> None:
        if obj.spec.parameters is not None and obj.spec.parameters.scope is None:
            obj.spec.parameters.scope = "Cluster"

    def validate_create(self, ctx: Context, obj: IngressClass) -> Iterable[FieldError]:
        if names.size(obj.spec.controller) > _MAX_CONTROLLER_LENGTH:
            yield FieldError.too_long(_CONTROLLER, _MAX_CONTROLLER_LENGTH)
        yield from names.domain_prefixed_path(obj.spec.controller, _CONTROLLER)
        if obj.spec.parameters is not None:
            yield from _validate_parameter(obj.spec.parameters)

    def validate_update(self, ctx: Context, obj: IngressClass, old: IngressClass) -> Iterable[FieldError]:
        yield from validate_immutable(obj.spec.controller, old.spec.controller, _CONTROLLER)
        yield from self.validate_create(ctx, obj)


def _validate_parameter(parameters: IngressClassParametersReference) -> FieldErrors:
    yield from validate_typed_reference(parameters, _PARAMETERS)
    scope, namespace, path = parameters.scope or "", parameters.namespace, f"{_PARAMETERS}.namespace"
    if scope not in _SCOPES:
        yield FieldError.not_supported(f"{_PARAMETERS}.scope", scope, _SCOPES)
    elif scope == "Namespace" and namespace is None:
        yield FieldError.required(path, "`parameters.scope` is set to 'Namespace'")
    elif scope == "Cluster" and namespace is not None:
        yield FieldError.forbidden(path, "`parameters.scope` is set to 'Cluster'")
    elif namespace is not None:
        yield from validate_dns_label(namespace, path)


BEHAVIOR = ResourceBehavior(strategy=IngressClassStrategy())
