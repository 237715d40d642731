"""The scale subresource: a view of a scalable object that contains only its number of replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from sampan.api.codec import json
from sampan.api.resources.resource import Resource
from sampan.api.types.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from sampan.api.types.meta_v1 import ManagedFieldsEntry, ObjectMeta
from sampan.apiserver.fieldmanager import SCALE_KIND, manager_name
from sampan.apiserver.registry import preconditions
from sampan.apiserver.registry.declarative import complete_errors
from sampan.apiserver.request import bodies, options, patches, server_side_apply
from sampan.apiserver.request.options import WriteOptions
from sampan.apiserver.response.responses import ObjectResponse
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.registry.strategy import Context, Strategy
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse

Entries = list[ManagedFieldsEntry]
Change = Callable[[Scale, Entries], tuple[Scale, Entries]]
"""A function from the current scale and the managed fields of the object to the requested scale and the new managed
fields."""


class ScaleSubresource:
    """The scale subresource of one kind. `selector` returns the label selector of an object's pods as text."""

    def __init__(self, *, strategy: Strategy, selector: Callable[[Any], str]) -> None:
        self._strategy, self._selector = strategy, selector

    async def serve(self, endpoints: ApiEndpoints, call: Call) -> ApiResponse:
        if call.resource is None:
            raise ValueError("the request has no resource")
        store = endpoints.registry.open_store(call.resource)
        if call.verb == "get":
            item = await store.get(call.namespace, call.name, call.query.get("resourceVersion"))
            return self._scale_response(call.resource, item.object(store.codec.decode))
        change, ctx = await _put(endpoints, call) if call.verb == "update" else _patch(endpoints, call)

        async def update_scale(current: Any) -> Any:
            old = self.scale_before(current)
            desired, managers = await ctx.compute(change, self.scale_before(current), current.metadata.managedFields)
            if call.verb == "update":
                key = store.key(call.namespace, call.name)
                preconditions.check_stored(store.resource, key, current, uid=desired.metadata.uid)
            await endpoints.admission.admit(endpoints.attributes("UPDATE", call, desired, old, ctx))
            self.check(ctx, desired, old, call.name)
            _check_uid(desired, current, store.resource)
            self.set_replicas(current, desired.spec.replicas)
            self.set_version(current, desired.metadata.resourceVersion)
            current.metadata.managedFields = managers
            return current

        async def check(new: Any, old: Any) -> None:
            scales = self.scale_of(new), self.scale_before(old)
            await endpoints.admission.validate(endpoints.attributes("UPDATE", call, *scales, ctx))

        written = await store.update(ctx, call.name, update_scale, strategy=self._strategy, check=check)
        return self._scale_response(call.resource, written.obj)

    def _scale_response(self, resource: Resource, obj: Any) -> ObjectResponse:
        return ObjectResponse(resource, json.encode(self.scale_of(obj)))

    def scale_of(self, obj: Any) -> Scale:
        return make_scale(obj, obj.spec.replicas or 0, obj.status.replicas, self._selector(obj))

    def scale_before(self, obj: Any) -> Scale:
        """Return the scale of the object that a request changes."""
        return self.scale_of(obj)

    def set_replicas(self, obj: Any, replicas: int) -> None:
        obj.spec.replicas = replicas

    def set_version(self, obj: Any, resource_version: str) -> None:
        """Set the resource version that the write must replace, from the requested scale."""
        obj.metadata.resourceVersion = resource_version

    def check(self, ctx: Context, scale: Scale, old: Scale, name: str) -> None:
        """Raise Invalid if the requested scale is invalid. Its metadata is ignored."""
        if field_errors := complete_errors([], scale, old, ctx.is_enabled):
            raise errors.invalid("Scale", name, field_errors, group=SCALE_KIND.group)


def make_scale(obj: Any, replicas: int, current_replicas: int, selector: str) -> Scale:
    meta = obj.metadata
    field_names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return Scale(
        metadata=ObjectMeta(**{field: getattr(meta, field) for field in field_names}),
        spec=ScaleSpec(replicas=replicas),
        status=ScaleStatus(replicas=current_replicas, selector=selector),
    )


async def _put(endpoints: ApiEndpoints, call: Call) -> tuple[Change, Context]:
    opts = options.write_options("UpdateOptions", call.query)
    desired: Scale = await endpoints.read_object(call, endpoints.registry.codec(SCALE_KIND), opts.field_validation)
    bodies.match_name(call, desired)
    bodies.match_namespace(call, desired)
    ctx = endpoints.context(call, opts.dry_run)

    def change(current: Scale, managers: Entries) -> tuple[Scale, Entries]:
        return desired, _update_managed_fields(endpoints, call, ctx, opts, managers, current, desired)

    return change, ctx


def _patch(endpoints: ApiEndpoints, call: Call) -> tuple[Change, Context]:
    codec = endpoints.registry.codec(SCALE_KIND)
    patch, opts = patches.read(call, codec)
    ctx = endpoints.context(call, opts.dry_run)
    if patch is None:
        return _apply(endpoints, call, ctx, opts), ctx
    patch.decode()

    def change(current: Scale, managers: Entries) -> tuple[Scale, Entries]:
        assert call.resource is not None
        meta = structs.replace(current.metadata, managedFields=endpoints.scales.scale_entries(call.resource, managers))
        desired: Scale = patch.apply(json.to_value(structs.replace(current, metadata=meta)))
        desired.metadata.managedFields = []
        bodies.match_name(call, desired)
        bodies.match_namespace(call, desired)
        return desired, _update_managed_fields(endpoints, call, ctx, opts, managers, current, desired)

    return change, ctx


def _apply(endpoints: ApiEndpoints, call: Call, ctx: Context, opts: WriteOptions) -> Change:
    codec = endpoints.registry.codec(SCALE_KIND)

    def change(current: Scale, managers: Entries) -> tuple[Scale, Entries]:
        applied, repeated = server_side_apply.read(call.body)
        assert call.resource is not None
        value, entries = endpoints.scales.apply(
            call.resource,
            managers,
            current,
            applied,
            manager=opts.field_manager,
            force=bool(opts.force),
            now=ctx.now,
        )
        server_side_apply.report_duplicates(call, repeated, opts.field_validation)
        desired: Scale = codec.from_value(value)[0]
        bodies.match_name(call, desired)
        bodies.match_namespace(call, desired)
        return desired, entries

    return change


def _update_managed_fields(
    endpoints: ApiEndpoints,
    call: Call,
    ctx: Context,
    opts: WriteOptions,
    managers: Entries,
    current: Scale,
    scale: Scale,
) -> Entries:
    assert call.resource is not None
    manager = manager_name(opts.field_manager, call.user_agent)
    return endpoints.scales.update(call.resource, managers, current, scale, manager=manager, now=ctx.now)


def _check_uid(scale: Scale, current: Any, resource: Resource) -> None:
    """Raise StoreConflict if a patch sets another UID. A PUT was checked before admission, with another message."""
    expected, present = scale.metadata.uid, current.metadata.uid
    if expected and expected != present:
        why = f"Precondition failed: UID in precondition: {expected}, UID in object meta: {present}"
        raise errors.conflict(f"{resource.plural}/scale", current.metadata.name, why, group=resource.group)
