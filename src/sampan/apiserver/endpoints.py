"""What each verb does with a resource: from a classified, authorized call to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sampan.api import times
from sampan.api.codec import json as json_codec
from sampan.api.resource import Resource
from sampan.apiserver import bodies, listing, options, patching
from sampan.apiserver.admission.chain import AdmissionChain, Attributes, Operation
from sampan.apiserver.call import Call
from sampan.apiserver.conversions import Versions
from sampan.apiserver.options import WriteOptions
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.store import Check, Store, Written
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.results import Answer, ListAnswer, ObjectAnswer, WatchAnswer, success
from sampan.machinery import errors, patch


class Endpoints:
    def __init__(self, *, registry: Registry, admission: AdmissionChain) -> None:
        self.registry, self.admission = registry, admission
        self.versions = Versions(registry)

    # -- reads -------------------------------------------------------------------------------------------------------

    async def get(self, call: Call) -> Answer:
        resource = _resource(call)
        item = await self.registry.store(resource).get(call.namespace, call.name, call.query.get("resourceVersion"))
        return ObjectAnswer(resource, self.versions.show(resource, item.raw), item=item)

    async def list(self, call: Call) -> Answer:
        resource = _resource(call)
        result = await self.registry.store(resource).cacher.list(listing.list_query(call))
        return ListAnswer(resource, result)

    async def watch(self, call: Call) -> Answer:
        resource = _resource(call)
        query = listing.watch_query(call)
        return WatchAnswer(resource, self.registry.store(resource).cacher.watch(query), query.timeout_s or 0)

    # -- create ------------------------------------------------------------------------------------------------------

    async def create(self, call: Call) -> Answer:
        resource, opts = _resource(call), options.write_options("CreateOptions", call.query)
        served, ctx = self.registry.served(resource), self.context(call, opts.dry_run)
        obj = bodies.read_object(call, self.codec(resource), opts.field_validation)
        self.match_namespace(call, obj)
        obj = self._default(resource, obj)
        await self.admission.admit(self.attributes("CREATE", call, obj, None, ctx))
        store = self.registry.store(resource)
        written = await store.create(ctx, obj, strategy=served.strategy, check=self._check("CREATE", call, ctx))
        return self.written(resource, written, 201)

    # -- update and patch --------------------------------------------------------------------------------------------

    async def update(self, call: Call) -> Answer:
        resource, opts = _resource(call), options.write_options("UpdateOptions", call.query)
        ctx, strategy = self.context(call, opts.dry_run), self.strategy(call)
        wanted = bodies.read_object(call, self.codec(resource), opts.field_validation)
        self._match_name(call, wanted)
        self.match_namespace(call, wanted)
        raw = self.codec(resource).encode(wanted)

        async def change(current: Any) -> Any:
            obj = self._default(resource, self.codec(resource).decode(raw))
            self._match_uid(resource, obj, current)
            await self.admission.admit(self.attributes("UPDATE", call, obj, current, ctx))
            return obj

        async def create() -> Any:
            obj = self._default(resource, self.codec(resource).decode(raw))
            await self.admission.admit(self.attributes("CREATE", call, obj, None, ctx))
            return obj

        written = await self.registry.store(resource).update(
            ctx, call.name, change, strategy=strategy, check=self._check("UPDATE", call, ctx), create=create
        )
        return self.written(resource, written, 201 if written.created else 200)

    async def patch(self, call: Call) -> Answer:
        resource = _resource(call)
        media = patching.patch_type(call, is_custom=resource.is_custom)
        opts = options.write_options("PatchOptions", call.query, is_apply=media == patching.APPLY_YAML)
        if media == patching.APPLY_YAML:
            raise errors.generic(415, "415: Unsupported Media Type")
        ctx, codec = self.context(call, opts.dry_run), self.codec(resource)
        apply, found = patching.read_patch(media, call.body, codec.schema)

        async def change(current: Any) -> Any:
            obj = self._patched(call, resource, current, apply, found, opts)
            await self.admission.admit(self.attributes("UPDATE", call, obj, current, ctx))
            return obj

        written = await self.registry.store(resource).update(
            ctx, call.name, change, strategy=self.strategy(call), check=self._check("UPDATE", call, ctx)
        )
        return self.written(resource, written, 200)

    def _patched(
        self,
        call: Call,
        resource: Resource,
        current: Any,
        apply: patching.Apply,
        found: Sequence[str],
        opts: WriteOptions,
    ) -> Any:
        codec = self.codec(resource)
        try:
            value = apply(codec.to_value(codec.encode(self.versions.to_shown(resource, current))))
        except patch.PatchError as fault:
            raise fault.as_api_error() from None
        try:
            obj, unknown = codec.from_value(value)
        except json_codec.DecodeError as fault:
            raise errors.bad_request(f"unable to decode patched object: {fault}") from None
        subject = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        bodies.complain(call, [*unknown, *found], opts.field_validation, subject)
        return self._default(resource, obj)

    # -- delete ------------------------------------------------------------------------------------------------------

    async def delete(self, call: Call) -> Answer:
        resource, opts = _resource(call), self.delete_options(call)
        ctx, served = self.context(call, opts.dry_run), self.registry.served(resource)
        await self.admission.admit(self.attributes("DELETE", call, None, None, ctx))
        written = await self.registry.store(resource).delete(
            ctx, call.name, opts, strategy=served.strategy, check=self._check("DELETE", call, ctx)
        )
        if written.deleted and not served.strategy.returns_deleted:
            return success(resource, call.name, written.obj.metadata.uid)
        return self.written(resource, written, 200)

    async def deletecollection(self, call: Call) -> Answer:
        resource, opts = _resource(call), self.delete_options(call)
        ctx, served = self.context(call, opts.dry_run), self.registry.served(resource)
        await self.admission.admit(self.attributes("DELETE", call, None, None, ctx))
        store = self.registry.store(resource)
        result = await store.cacher.list(listing.list_query(call))
        for item in result.items:
            inner = self.context(call, opts.dry_run)
            inner.namespace = item.namespace
            try:
                await store.delete(
                    inner, item.name, opts, strategy=served.strategy, check=self._check("DELETE", call, ctx)
                )
            except errors.NotFound:
                continue
        return ListAnswer(resource, result)

    def delete_options(self, call: Call) -> DeleteOptions:
        if not call.body:
            return options.delete_options_of_query(call.query)
        return options.checked_delete_options(bodies.read_delete_options(call))

    # -- parts -------------------------------------------------------------------------------------------------------

    def codec(self, resource: Resource) -> ResourceCodec:
        return self.registry.codec(resource.gvk, resource)

    def strategy(self, call: Call) -> Strategy:
        found = self.registry.served(_resource(call)).view(call.subresource)
        if found is None:
            raise errors.generic(405)
        return found

    def context(self, call: Call, dry_run: bool) -> Context:
        return Context(
            registry=self.registry,
            user=call.user,
            now=times.format_time(self.registry.clock.now()),
            namespace=call.namespace,
            dry_run=dry_run,
            subresource=call.subresource,
            warn=call.warn,
        )

    def attributes(self, operation: Operation, call: Call, obj: Any, old: Any, ctx: Context) -> Attributes:
        return Attributes(
            operation=operation,
            resource=_resource(call),
            registry=self.registry,
            user=call.user,
            namespace=ctx.namespace,
            name=call.name or (obj.metadata.name if obj is not None else ""),
            obj=obj,
            old=old,
            subresource=call.subresource,
            dry_run=ctx.dry_run,
            warn=call.warn,
        )

    def written(self, resource: Resource, written: Written, code: int) -> ObjectAnswer:
        return ObjectAnswer(resource, self.versions.show(resource, written.raw), code, written.obj)

    def _default(self, resource: Resource, obj: Any) -> Any:
        """The stored form of a client's object, with the defaults filled in."""
        stored = self.versions.to_stored(resource, obj)
        self.registry.served(resource).strategy.default(stored)
        return stored

    def _check(self, operation: Operation, call: Call, ctx: Context) -> Check:
        async def check(obj: Any, old: Any | None) -> None:
            new = None if operation == "DELETE" else obj
            await self.admission.validate(self.attributes(operation, call, new, old, ctx))

        return check

    @staticmethod
    def match_namespace(call: Call, obj: Any) -> None:
        meta = obj.metadata
        if not _resource(call).namespaced:
            meta.namespace = ""
        elif not meta.namespace:
            meta.namespace = call.namespace
        elif meta.namespace != call.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    @staticmethod
    def _match_name(call: Call, obj: Any) -> None:
        name = obj.metadata.name
        if not name:
            text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
            raise errors.bad_request(text)
        if name != call.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({call.name})"
            )

    def _match_uid(self, resource: Resource, obj: Any, current: Any) -> None:
        wanted, found = obj.metadata.uid, current.metadata.uid
        if wanted and wanted != found:
            key = self.registry.store(resource).key(current.metadata.namespace, current.metadata.name)
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
            )
            raise errors.conflict(resource.plural, current.metadata.name, why, group=resource.group)


def _resource(call: Call) -> Resource:
    if call.resource is None:
        raise ValueError("the call names no resource")
    return call.resource


__all__ = ["Endpoints", "Store"]
