"""The verbs of the API: from a classified, authorized request to a response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.values import times
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.authz import AuthzDecision, UnionAuthorizer
from sampan.apiserver.authz.authorizer import attributes_of
from sampan.apiserver.customresources.objects.custom_schema import CustomSchema
from sampan.apiserver.fieldmanager import FieldOwnership, ScaleOwnership, is_reset_in_body, manager_name
from sampan.apiserver.object_workers import ObjectWorkers
from sampan.apiserver.registry import metadata
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.store import TOO_LARGE_MESSAGE, AdmissionCheck, Store, WriteResult
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.request import bodies, options, patches
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.server_side_apply import ApplyRequest
from sampan.apiserver.response.responses import (
    ApiResponse,
    ListResponse,
    ObjectResponse,
    ValueResponse,
    VersionConverter,
    WatchResponse,
    success_status,
)
from sampan.machinery import errors
from sampan.storage.cacher import CacheItem

if TYPE_CHECKING:
    from sampan.apiserver.proxy.upstream import UpstreamClient
    from sampan.apiserver.registry.strategy_services import StrategyServices
    from sampan.machinery.pki.token_signer import TokenSigner

T = TypeVar("T")
ComponentCheck = Callable[[], Awaitable[None]]
"""Raises an exception if a control plane component is unhealthy."""


class ComponentChecks:
    """The health checks of other control plane components in this process, for ComponentStatus. A component adds its
    own when it starts."""

    def __init__(self) -> None:
        self._by_name: dict[str, ComponentCheck] = {}

    def add(self, name: str, check: ComponentCheck) -> None:
        self._by_name[name] = check

    def by_name(self) -> Mapping[str, ComponentCheck]:
        return self._by_name


_UNSAFE_VERB: Final = "unsafe-delete-ignore-read-errors"
"""The permission to delete objects that cannot be read."""
_DELETE_BATCH = 16
"""How many objects of a collection are deleted concurrently."""


class ApiEndpoints:
    def __init__(
        self,
        *,
        registry: Registry,
        admission: AdmissionChain,
        services: StrategyServices,
        authorizer: UnionAuthorizer | None = None,
        upstream: UpstreamClient | None = None,
        token_signer: TokenSigner | None = None,
        component_checks: ComponentChecks | None = None,
    ) -> None:
        """`authorizer` is consulted when a request turns out to need a further permission (a PUT that creates); without
        `upstream` no node, pod or service can be proxied to, and without `token_signer` no service account token can be
        requested."""
        self.registry, self.admission, self._authorizer = registry, admission, authorizer
        self.services, self.upstream, self.token_signer = services, upstream, token_signer
        self._allows_unsafe_delete = services.feature_gates.is_enabled("AllowUnsafeMalformedObjectDeletion")
        self.component_checks = component_checks or ComponentChecks()
        self.versions, self.ownership = VersionConverter(registry), FieldOwnership(registry)
        self.scales = ScaleOwnership(self.ownership)
        self._workers = ObjectWorkers(registry)

    async def compile_schema(self, resource: Resource) -> None:
        """Compile the schema of a custom resource, in a worker thread, before the first write needs it."""
        schema = resource.schema
        if isinstance(schema, CustomSchema) and not schema.is_complete:
            await self._workers.for_schemas().run(schema.complete)

    # -- get, list and watch -----------------------------------------------------------------------------------------

    async def get(self, call: Call) -> ApiResponse:
        resource = _resource(call)
        if call.query.flag("export"):
            raise errors.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
        item = await self.registry.open_store(resource).get(
            call.namespace, call.name, call.query.get("resourceVersion")
        )
        return ObjectResponse(resource, self.versions.to_requested_bytes(resource, item.raw), item=item)

    async def list(self, call: Call) -> ApiResponse:
        resource = _resource(call)
        result = await self.registry.open_store(resource).cacher.list(await self.read_query(call, options.list_query))
        return ListResponse(resource, result)

    async def watch(self, call: Call) -> ApiResponse:
        resource = _resource(call)
        query = await self.read_query(call, options.watch_query)
        return WatchResponse(resource, self.registry.open_store(resource).cacher.watch(query), query.timeout_s or 0)

    # -- create ------------------------------------------------------------------------------------------------------

    async def create(self, call: Call) -> ApiResponse:
        resource, opts = _resource(call), options.write_options("CreateOptions", call.query)
        behavior, ctx = self.registry.behavior(resource), self.context(call, opts.dry_run)
        obj = await ctx.compute(bodies.read_object, call, self.codec(resource), opts.field_validation)
        metadata.wipe_system_fields(obj.metadata)
        bodies.match_namespace(call, obj)
        obj = await ctx.compute(self._prepare_new_object, call, ctx, opts, obj)
        obj = await self._admit("CREATE", call, ctx, obj, None)
        store = self.registry.open_store(resource)
        written = await store.create(ctx, obj, strategy=behavior.strategy, check=self._check("CREATE", call, ctx))
        return self.make_write_response(resource, written, 201)

    # -- update and patch --------------------------------------------------------------------------------------------

    async def update(self, call: Call) -> ApiResponse:
        resource, opts = _resource(call), options.write_options("UpdateOptions", call.query)
        ctx, strategy, codec = self.context(call, opts.dry_run), self.strategy(call), self.codec(resource)
        read = partial(bodies.read_object, call, codec, opts.field_validation)
        sent = _SentObject(read, await ctx.compute(read))
        bodies.match_namespace(call, sent.first)
        bodies.match_name(call, sent.first)

        def replacement(present: StoredObject) -> Any:
            obj = self._default_large(ctx, resource, sent.take(call))
            bodies.drop_repeated_owners(call, obj)
            is_reset = not obj.metadata.managedFields and is_reset_in_body(call)
            live = self.versions.to_requested_value(resource, present.raw)
            self._update_managed_fields(call, ctx, opts, obj, present, live, is_reset)
            return obj

        async def make_updated_object(present: StoredObject) -> Any:
            self._use_worker_if_large(ctx, resource, present)
            obj = await ctx.compute(replacement, present)
            return await self._admit("UPDATE", call, ctx, obj, present.obj)

        async def create() -> Any:
            await self.authorize_create(call)
            obj = await ctx.compute(self._prepare_new_object, call, ctx, opts, sent.take(call))
            return await self._admit("CREATE", call, ctx, obj, None)

        written = await self.registry.open_store(resource).replace(
            ctx,
            call.name,
            make_updated_object,
            strategy=strategy,
            check=self._check("UPDATE", call, ctx),
            create=create if strategy.allow_create_on_update else None,
            check_new=self._check("CREATE", call, ctx),
            uid=sent.first.metadata.uid,
        )
        return self.make_write_response(resource, written, 201 if written.created else 200)

    async def patch(self, call: Call) -> ApiResponse:
        resource = _resource(call)
        patch, opts = patches.read(call, self.codec(resource))
        if patch is None:
            return await self._apply(call, opts)
        ctx = self.context(call, opts.dry_run)
        if patch.may_grow and ctx.worker is None:
            ctx.worker = self._workers.for_growing_patch(call)

        await ctx.compute(patch.decode)

        def apply_patch(present: StoredObject) -> Any:
            live = self.versions.to_requested_value(resource, present.raw)
            obj = patch.apply(live)
            bodies.match_namespace(call, obj)
            bodies.match_name(call, obj)
            obj = self._default_large(ctx, resource, obj)
            self._update_managed_fields(call, ctx, opts, obj, present, live, patch.resets_managers)
            return obj

        async def make_updated_object(present: StoredObject) -> Any:
            self._use_worker_if_large(ctx, resource, present)
            obj = await ctx.compute(apply_patch, present)
            return await self._admit("UPDATE", call, ctx, obj, present.obj)

        written = await self.registry.open_store(resource).replace(
            ctx, call.name, make_updated_object, strategy=self.strategy(call), check=self._check("UPDATE", call, ctx)
        )
        return self.make_write_response(resource, written, 200)

    async def _apply(self, call: Call, opts: options.WriteOptions) -> ApiResponse:
        """Perform a server-side apply. It creates a missing object, unless the request is for a subresource."""
        resource, ctx = _resource(call), self.context(call, opts.dry_run)
        apply_request = ApplyRequest(
            call=call,
            resource=resource,
            options=opts,
            codec=self.codec(resource),
            ownership=self.ownership,
            versions=self.versions,
            now=ctx.now,
        )

        await ctx.compute(apply_request.decode)

        def check_and_default(obj: Any) -> Any:
            bodies.match_namespace(call, obj)
            bodies.match_name(call, obj)
            return self._default_large(ctx, resource, obj)

        async def make_updated_object(present: StoredObject) -> Any:
            self._use_worker_if_large(ctx, resource, present)
            obj = await ctx.compute(lambda: check_and_default(apply_request.apply_to(present)))
            return await self._admit("UPDATE", call, ctx, obj, present.obj)

        async def create() -> Any:
            obj = await ctx.compute(lambda: check_and_default(apply_request.create_object()))
            await self.authorize_create(call)
            return await self._admit("CREATE", call, ctx, obj, None)

        written = await self.registry.open_store(resource).replace(
            ctx,
            call.name,
            make_updated_object,
            strategy=self.strategy(call),
            check=self._check("UPDATE", call, ctx),
            create=None if call.subresource else create,
            check_new=self._check("CREATE", call, ctx),
        )
        return self.make_write_response(resource, written, 201 if written.created else 200)

    # -- delete ------------------------------------------------------------------------------------------------------

    async def delete(self, call: Call) -> ApiResponse:
        resource, opts = _resource(call), await self.delete_options(call)
        ctx, strategy = self.context(call, opts.dry_run), self.registry.behavior(resource).strategy
        strategy.check_delete(call.name)
        if opts.ignores_read_errors:
            return await self._delete_unreadable(call, ctx)
        written = await self.registry.open_store(resource).delete(
            ctx, call.name, opts, strategy=strategy, check=self._check("DELETE", call, ctx)
        )
        is_returned = strategy.return_deleted_object or ctx.version in strategy.lenient_versions
        if written.deleted and not is_returned:
            return success_status(resource, call.name, written.obj.metadata.uid)
        is_asynchronous = not written.deleted and opts.orphan_dependents is False
        return self.make_write_response(resource, written, 202 if is_asynchronous else 200)

    async def _delete_unreadable(self, call: Call, ctx: Context) -> ApiResponse:
        """Delete an object whose stored value cannot be decoded, without admission: there is no object to show."""
        resource = _resource(call)
        if call.audit is not None:
            call.audit.annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
        if self._authorizer is not None:
            request = msgspec.structs.replace(attributes_of(call, _UNSAFE_VERB), field_selector="", label_selector="")
            result = await self._authorizer.authorize(request)
            if result.decision is not AuthzDecision.ALLOW:
                why = f"not permitted to do {gotext.quote(_UNSAFE_VERB)}, reason: {result.reason}"
                if result.error:
                    why = f"error while checking permission for {gotext.quote(_UNSAFE_VERB)}, {result.error}"
                raise errors.forbidden(resource.plural, call.name, why, group=resource.group)
        await self.registry.open_store(resource).delete_unreadable(ctx, call.name)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200}
        return ValueResponse({**status, "details": {"name": call.name, "kind": resource.kind}})

    async def deletecollection(self, call: Call) -> ApiResponse:
        """Delete the objects that a list with these options returns. The response is that list, as it was before."""
        resource, query = _resource(call), await self.read_query(call, options.list_query)
        opts, strategy = await self.delete_options(call), self.registry.behavior(resource).strategy
        options.check_collection_delete_options(opts)
        store = self.registry.open_store(resource)
        result = await store.cacher.list(query)

        async def delete(item: CacheItem) -> None:
            ctx = self.context(call, opts.dry_run)
            ctx.namespace = item.namespace
            with suppress(errors.NotFound):
                await store.delete(ctx, item.name, opts, strategy=strategy, check=self._check("DELETE", call, ctx))

        await _run_in_batches(delete, result.items)
        return ListResponse(resource, result)

    async def delete_options(self, call: Call) -> DeleteOptions:
        if not call.body:
            return options.delete_options_of_query(call.query, allows_unsafe=self._allows_unsafe_delete)
        value = await self.compute(call, bodies.read_delete_options, call)
        return options.parse_delete_options(value, allows_unsafe=self._allows_unsafe_delete)

    # -- helpers -----------------------------------------------------------------------------------------------------

    async def read_object(self, call: Call, codec: ResourceCodec, validation: str) -> Any:
        """Return the object in the body as `bodies.read_object` does; a large body is decoded in a worker thread."""
        return await self.compute(call, bodies.read_object, call, codec, validation)

    async def compute(self, call: Call, work: Callable[..., T], *args: Any) -> T:
        """Return the result of CPU-bound work on the body, in a worker thread if that may take long."""
        worker = self._workers.for_call(call)
        return work(*args) if worker is None else await worker.run(work, *args)

    async def read_query(self, call: Call, read: Callable[[Call], T]) -> T:
        """Return the options in the query string; long selectors are parsed in a worker thread."""
        worker = self._workers.for_query(call)
        return read(call) if worker is None else await worker.run(read, call)

    def codec(self, resource: Resource) -> ResourceCodec:
        return self.registry.codec_of(resource)

    def strategy(self, call: Call) -> Strategy:
        strategy = self.registry.behavior(_resource(call)).view(call.subresource)
        if strategy is None:
            raise errors.generic(405)
        return strategy

    def context(self, call: Call, dry_run: bool) -> Context:
        return Context(
            services=self.services,
            user=call.user,
            now=times.format_time(self.registry.clock.now()),
            namespace=call.namespace,
            dry_run=dry_run,
            subresource=call.subresource,
            verb=call.verb,
            version=_resource(call).version,
            warn=call.warn,
            has_enough_warnings=call.has_enough_warnings,
            worker=self._workers.for_call(call),
        )

    def _use_worker_if_large(self, ctx: Context, resource: Resource, present: StoredObject) -> None:
        """Process a large object in a worker thread even if the request that changes it is small."""
        ctx.worker = self._workers.for_stored(ctx.worker, ctx.user, resource, len(present.raw))

    def attributes(self, operation: Operation, call: Call, obj: Any, old: Any, ctx: Context) -> AdmissionAttributes:
        return AdmissionAttributes(
            operation=operation,
            resource=_resource(call),
            registry=self.registry,
            services=self.services,
            user=call.user,
            namespace=ctx.namespace,
            name=call.name or _name_of(obj) or _name_of(old),
            obj=obj,
            old=old,
            subresource=call.subresource,
            dry_run=ctx.dry_run,
            warn=call.warn,
            exclude_time=call.exclude_time,
            annotate=call.audit.annotate if call.audit is not None else _discard_annotation,
            options=partial(options.admission_options, operation, call),
        )

    def make_write_response(self, resource: Resource, written: WriteResult, code: int) -> ObjectResponse:
        return ObjectResponse(resource, self.versions.to_requested_bytes(resource, written.raw), code, written.obj)

    async def _admit(self, operation: Operation, call: Call, ctx: Context, obj: Any, old: Any) -> Any:
        """Return the object after mutating admission."""
        managers, namespace = obj.metadata.managedFields, obj.metadata.namespace
        await self.admission.admit(self.attributes(operation, call, obj, old, ctx))
        if obj.metadata.namespace != namespace:
            bodies.match_namespace(call, obj)
        if obj.metadata.managedFields is not managers:
            self._check_managers(call, obj, managers)
        bodies.drop_repeated_owners(call, obj, is_after_admission=True)
        return obj

    def _check_managers(self, call: Call, obj: Any, before: Any) -> None:
        """Restore the managed fields from before admission, with a warning, if admission left invalid ones."""
        if why := self.ownership.get_manager(_resource(call), call.subresource).validate_entries(
            obj.metadata.managedFields
        ):
            obj.metadata.managedFields = before
            call.warn(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
                f"mutating admission controller; please fix your requests: {why}"
            )

    def _prepare_new_object(self, call: Call, ctx: Context, opts: options.WriteOptions, obj: Any) -> Any:
        """Return the storage form of a new object, with managed fields for what the client set. Fields that the server
        adds later have no manager."""
        obj = self._default_large(ctx, _resource(call), obj)
        bodies.drop_repeated_owners(call, obj)
        manager = manager_name(opts.field_manager, call.user_agent)
        self.ownership.record_create(_resource(call), obj, manager=manager, now=ctx.now)
        return obj

    def _update_managed_fields(
        self,
        call: Call,
        ctx: Context,
        opts: options.WriteOptions,
        obj: Any,
        present: StoredObject,
        live: dict[str, Any],
        is_reset: bool,
    ) -> None:
        """Update the managed fields of a changed object. `live` is the value before the change, in the version of the
        path."""
        self.ownership.record_update(
            _resource(call),
            call.subresource,
            obj,
            present.obj,
            live,
            is_reset=is_reset,
            manager=manager_name(opts.field_manager, call.user_agent),
            now=ctx.now,
        )

    def _default(self, resource: Resource, obj: Any) -> Any:
        """Return a client's object in the storage version, with defaults applied."""
        stored = self.versions.to_storage_version(resource, obj)
        self.registry.default(resource, stored)
        return stored

    def _default_large(self, ctx: Context, resource: Resource, obj: Any) -> Any:
        """Return a client's object as `_default` does, but stop processing it if it has become too large to be stored:
        defaulting can make an object many times as large as its body was."""
        stored = self._default(resource, obj)
        if ctx.worker is not None:
            size = len(self.registry.open_store(resource).codec.encode(stored))
            if size > limits.DECODED_BODY_BYTES:
                raise errors.unexpected_error(TOO_LARGE_MESSAGE)
        return stored

    def _check(self, operation: Operation, call: Call, ctx: Context) -> AdmissionCheck:
        """Return the validating admission check. A delete also runs mutating admission here, whose plugins may reject
        it."""

        async def check(obj: Any, old: Any | None) -> None:
            is_delete = operation == "DELETE"
            attributes = self.attributes(operation, call, None if is_delete else obj, old, ctx)
            if is_delete:
                await self.admission.admit(attributes)
            await self.admission.validate(attributes)

        return check

    async def admit_connection(self, call: Call, connect_options: Any) -> None:
        """Run admission for a connection to a node, pod or service, whose object is the options of the connection."""
        attributes = self.attributes("CONNECT", call, connect_options, None, self.context(call, dry_run=False))
        await self.admission.admit(attributes)
        await self.admission.validate(attributes)

    async def authorize_create(self, call: Call) -> None:
        """Check the permission to create, for a PUT or apply that creates an object and for connections into a
        container."""
        if self._authorizer is not None:
            await self._authorizer.check(call, "create")


async def _run_in_batches(act: Callable[[CacheItem], Coroutine[None, None, None]], items: Sequence[CacheItem]) -> None:
    """Run `act` on the items in batches, so that their writes share commits. The first error stops it and is raised."""
    for start in range(0, len(items), _DELETE_BATCH):
        try:
            async with asyncio.TaskGroup() as group:
                for item in items[start : start + _DELETE_BATCH]:
                    group.create_task(act(item))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None


class _SentObject:
    """The object of a PUT. Every attempt needs its own copy, so the body is decoded again if an earlier attempt used
    it."""

    def __init__(self, read: Callable[[], Any], first: Any) -> None:
        self._read, self.first = read, first
        self._is_taken = False

    def take(self, call: Call) -> Any:
        if not self._is_taken:
            self._is_taken = True
            return self.first
        obj = self._read()
        bodies.match_namespace(call, obj)
        return obj


def _name_of(obj: Any) -> str:
    return obj.metadata.name if obj is not None else ""


def _discard_annotation(key: str, value: str) -> None:
    """Discard an audit annotation of a request that is not audited."""


def _resource(call: Call) -> Resource:
    if call.resource is None:
        raise ValueError("the request has no resource")
    return call.resource


__all__ = ["ApiEndpoints", "Store"]
