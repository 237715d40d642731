"""validatingadmissionpolicy-status-controller, which checks the expressions of a ValidatingAdmissionPolicy against the
types of the objects that it matches, and reports errors as warnings in its status."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from contextlib import suppress
from functools import cache

from sampan.api import schemas
from sampan.api.resource import GroupVersionKind
from sampan.api.scheme import Scheme, builtin_scheme, type_for
from sampan.api.types.admissionregistration_v1 import (
    ExpressionWarning,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
)
from sampan.machinery import errors
from sampan.machinery.cel.errors import CelError
from sampan.machinery.client import Client, PatchType, WriteParameters, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.informer import InformerFactory

_MANAGER = "validatingadmissionpolicy-status-controller"
_MOST_TYPES = 10
"""The number of kinds for which the expressions of a policy are checked."""
_COMPILATION = "compilation failed: "


def matched_kinds(spec: ValidatingAdmissionPolicySpec) -> list[GroupVersionKind]:
    """Return the built-in kinds that a policy names explicitly, without wildcards and subresources, in order."""
    scheme, kinds = _scheme(), set()
    for rule in spec.matchConstraints.resourceRules if spec.matchConstraints is not None else ():
        for group in rule.apiGroups:
            for version in rule.apiVersions:
                for plural in rule.resources:
                    resource = scheme.resource(group, version, plural)
                    if resource is not None:
                        kinds.add(resource.gvk)
    return sorted(kinds, key=lambda kind: (kind.group, kind.version, kind.kind))[:_MOST_TYPES]


@cache
def _scheme() -> Scheme:
    return builtin_scheme()


def expression_warnings(spec: ValidatingAdmissionPolicySpec) -> list[ExpressionWarning]:
    """Return the errors of the expressions for each kind that the policy matches. It takes up to 15 microseconds for
    each character of the expressions and kind."""
    texts: dict[str, list[str]] = {}
    for kind in matched_kinds(spec):
        for field, error in _type_errors(spec, kind):
            texts.setdefault(field, []).append(f"{kind.api_version}, Kind={kind.kind}: {error}\n")
    return [ExpressionWarning(fieldRef=field, warning="\n".join(warnings)) for field, warnings in texts.items()]


def _type_errors(spec: ValidatingAdmissionPolicySpec, kind: GroupVersionKind) -> Iterable[tuple[str, str]]:
    from sampan.machinery.cel.admission import validating_compiler
    from sampan.machinery.cel.schemas import declared_type

    object_type = type_for(kind)
    if object_type is None:
        return
    declared = declared_type(schemas.of(object_type), kind.kind, is_resource=True)
    compiler = validating_compiler(has_params=spec.paramKind is not None, obj=declared)

    for variable in spec.variables:
        with suppress(CelError):
            compiler.variable(variable.name, variable.expression)
    for index, validation in enumerate(spec.validations):
        for field in ("expression", "messageExpression"):
            try:
                if text := getattr(validation, field):
                    compiler.expression(text)
            except CelError as error:
                yield f"spec.validations[{index}].{field}", str(error).removeprefix(_COMPILATION)


class AdmissionPolicyStatusController:
    name = "validatingadmissionpolicy-status-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._policies = client.of(ValidatingAdmissionPolicy)
        self._known = informers.of(ValidatingAdmissionPolicy).lister
        self.watches = (Watch(resource_of(ValidatingAdmissionPolicy), self._changed),)

    def _changed(self, policy: ValidatingAdmissionPolicy) -> Iterable[Hashable]:
        is_checked = policy.status.observedGeneration == policy.metadata.generation
        return () if is_checked else (policy.metadata.name,)

    async def reconcile(self, key: str) -> None:
        policy = self._known.get(key)
        if policy is None or policy.status.observedGeneration == policy.metadata.generation:
            return
        warnings = await asyncio.to_thread(expression_warnings, policy.spec)
        checked = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": policy.metadata.generation, "typeChecking": checked}
        value = {
            "apiVersion": policy.apiVersion,
            "kind": policy.kind,
            "metadata": {"name": key},
            "status": status,
        }
        options = WriteParameters(field_manager=_MANAGER, force=True)
        try:
            await self._policies.patch(key, value, type=PatchType.APPLY, subresource="status", options=options)
        except errors.NotFound:
            return
