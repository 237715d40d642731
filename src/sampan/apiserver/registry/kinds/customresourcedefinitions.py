"""CustomResourceDefinition: a resource type that users define."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.semantics.conditions import is_true
from sampan.api.types.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionStatus,
)
from sampan.api.values import times
from sampan.apiserver.customresources.definitions.validation import (
    list_set_warnings,
    unknown_formats,
    validate_api_approval,
    validate_conversion,
    validate_group,
    validate_names,
    validate_required_names,
)
from sampan.apiserver.customresources.definitions.versions import (
    hoist_shared_fields,
    validate_common_fields,
    validate_schemas_present,
    validate_stored_versions,
    validate_versions,
)
from sampan.apiserver.registry import deletion
from sampan.apiserver.registry.admission_configs.webhooks import DEFAULT_PORT
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_immutable, validate_one_of
from sampan.apiserver.tables.columns import CREATED_AT, NAME
from sampan.machinery.apply import ExcludedFieldsFilter

ESTABLISHED = "Established"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a definition that is marked as deleted until its objects are deleted."""
_SCOPES = ("Cluster", "Namespaced")


class CustomResourceDefinitionStrategy(Strategy):
    allow_unconditional_update = False
    counts_generation = True
    needs_qualified_finalizers = False
    has_expressions = True
    columns = (
        NAME,
        Column("Scope", lambda definition, now: definition.spec.scope, description="Cluster/Namespaced"),
        Column("Versions", lambda definition, now: _format_versions(definition.spec), description="Served versions"),
        CREATED_AT,
        Column("Group", lambda definition, now: definition.spec.group, wide=True, description="API group"),
        Column(
            "Kind", lambda definition, now: definition.spec.names.kind, wide=True, description="CustomResource kind"
        ),
        Column(
            "ShortNames",
            lambda definition, now: ",".join(definition.spec.names.shortNames),
            wide=True,
            description="Short names",
        ),
        Column(
            "Established",
            lambda definition, now: is_true(definition.status.conditions or (), ESTABLISHED),
            type="boolean",
            wide=True,
            description="Established status",
        ),
    )

    def default(self, obj: CustomResourceDefinition) -> None:
        names, spec = obj.spec.names, obj.spec
        names.singular = names.singular or names.kind.lower()
        if names.kind:
            names.listKind = names.listKind or f"{names.kind}List"
        if spec.conversion is None:
            spec.conversion = CustomResourceConversion(strategy="None")
        webhook = spec.conversion.webhook
        service = webhook.clientConfig.service if webhook is not None and webhook.clientConfig is not None else None
        if service is not None and service.port is None:
            service.port = DEFAULT_PORT
        if not obj.status.storedVersions:
            obj.status.storedVersions = _list_storage_versions(spec) or None

    def prepare_for_create(self, ctx: Context, obj: CustomResourceDefinition) -> None:
        obj.status = CustomResourceDefinitionStatus(storedVersions=_list_storage_versions(obj.spec) or None)

    def validate_create(self, ctx: Context, obj: CustomResourceDefinition) -> Iterable[FieldError]:
        name, spec = obj.metadata.name, obj.spec
        if name and name != f"{spec.names.plural}.{spec.group}":
            yield FieldError.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        yield from _validate_crd(obj, None)

    def prepare_for_update(self, ctx: Context, obj: CustomResourceDefinition, old: CustomResourceDefinition) -> None:
        before = old.status
        stored = [*(before.storedVersions or ())]
        stored += [name for name in _list_storage_versions(obj.spec) if name not in stored]
        obj.status = CustomResourceDefinitionStatus(
            conditions=before.conditions,
            acceptedNames=before.acceptedNames,
            storedVersions=stored or None,
            observedGeneration=before.observedGeneration,
        )

    def validate_update(
        self, ctx: Context, obj: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> Iterable[FieldError]:
        return _validate_crd(obj, old)

    def mark_deleted(
        self,
        ctx: Context,
        obj: CustomResourceDefinition,
        *,
        requested_s: int | None,
        policy: deletion.Policy,
        now: float,
    ) -> deletion.DeletionAction:
        """Mark a definition as deleted; the finalizer keeps it until its objects are deleted."""
        meta = obj.metadata
        if meta.deletionTimestamp is not None:
            return super().mark_deleted(ctx, obj, requested_s=requested_s, policy=policy, now=now)
        meta.deletionTimestamp = times.format_time(now)
        if CLEANUP_FINALIZER not in meta.finalizers:
            meta.finalizers = [*meta.finalizers, CLEANUP_FINALIZER]
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        condition = CustomResourceDefinitionCondition(
            type="Terminating",
            status="True",
            lastTransitionTime=ctx.now,
            reason="InstanceDeletionPending",
            message=message,
        )
        obj.status.conditions = [*(obj.status.conditions or ()), condition]
        return deletion.DeletionAction.MARK

    def warnings(
        self, ctx: Context, obj: CustomResourceDefinition, old: CustomResourceDefinition | None
    ) -> Iterable[str]:
        before = set(_schema_warnings(old.spec)) if old is not None else set()
        yield from (text for text in _schema_warnings(obj.spec) if text not in before)


class CustomResourceDefinitionStatusStrategy(StatusStrategy):
    reset_fields = ExcludedFieldsFilter("metadata", "spec")
    """kube-apiserver declares that this path resets the metadata, so that no manager owns it through this path, but the
    path does write the metadata: its call of ResetObjectMetaForStatus passes the new metadata twice."""

    def validate_update(
        self, ctx: Context, obj: CustomResourceDefinition, old: CustomResourceDefinition
    ) -> Iterable[FieldError]:
        return validate_names(obj.status.acceptedNames, "status.acceptedNames")


def _list_storage_versions(spec: CustomResourceDefinitionSpec) -> list[str]:
    return [version.name for version in spec.versions or () if version.storage][:1]


def _format_versions(spec: CustomResourceDefinitionSpec) -> str:
    served = (version for version in spec.versions or () if version.served)
    return ",".join(sorted(f"{version.name}(storage)" if version.storage else version.name for version in served))


def _schema_warnings(spec: CustomResourceDefinitionSpec) -> list[str]:
    hoisted_spec = hoist_shared_fields(spec)
    schemas = (hoisted_spec.schema, *(version.schema for version in hoisted_spec.versions))
    formats = [f'unrecognized format "{name}"' for schema in schemas for name in unknown_formats(schema)]
    return formats + sorted({text for schema in schemas for text in list_set_warnings(schema)})


def _validate_crd(crd: CustomResourceDefinition, old: CustomResourceDefinition | None) -> FieldErrors:
    spec, parts = crd.spec, hoist_shared_fields(crd.spec)
    yield from validate_group(spec.group, "spec.group")
    yield from validate_one_of(spec.scope, _SCOPES, "spec.scope")
    if old is None or not any(validate_schemas_present(old.spec)):
        yield from validate_schemas_present(spec)
    yield from validate_versions(parts)
    yield from validate_required_names(spec.names, "spec.names")
    yield from validate_names(spec.names, "spec.names")
    yield from validate_common_fields(parts)
    if spec.conversion is not None:
        before = old.spec.conversion if old is not None else None
        yield from validate_conversion(spec.conversion, before, "spec.conversion")
    if old is not None:
        yield from _validate_spec_update(spec, old)
    yield from validate_names(crd.status.acceptedNames, "status.acceptedNames")
    yield from validate_stored_versions(crd.status.storedVersions or (), spec.versions or ())
    yield from validate_api_approval(crd, old)
    if spec.preserveUnknownFields and not (old is not None and old.spec.preserveUnknownFields):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield FieldError.invalid("spec.preserveUnknownFields", True, text)


def _validate_spec_update(spec: CustomResourceDefinitionSpec, old: CustomResourceDefinition) -> FieldErrors:
    """Yield errors if fields change that determine how objects are stored."""
    before, conditions = old.spec, old.status.conditions or ()
    if any((condition.type, condition.status) == (ESTABLISHED, "True") for condition in conditions):
        yield from validate_immutable(spec.scope, before.scope, "spec.scope")
        yield from validate_immutable(spec.names.kind, before.names.kind, "spec.names.kind")
    yield from validate_immutable(spec.group, before.group, "spec.group")
    yield from validate_immutable(spec.names.plural, before.names.plural, "spec.names.plural")


_strategy = CustomResourceDefinitionStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": CustomResourceDefinitionStatusStrategy(_strategy)})
