"""Create, update and delete for every kind; reads come from the cacher.

A write encodes the object once. The bytes go to the backend, and the response is made of the same bytes with the new
resource version inserted. The store does not depend on the kind: what differs is in the `Strategy`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api import limits
from sampan.api.field_errors import FieldError, collect_errors
from sampan.api.resources.resource import Resource
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry import deletion, metadata, preconditions
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.declarative import complete_errors
from sampan.apiserver.registry.deletion import DeleteOptions, DeletionAction
from sampan.apiserver.registry.gated_fields import GatedFields
from sampan.apiserver.registry.metadata import ATTEMPTS, generate_name
from sampan.apiserver.registry.stored_object import StoredObject, StoredObjects
from sampan.apiserver.registry.strategy import Context, FinishFunc, Strategy
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.apply.managed import differ_in_time_only
from sampan.machinery.telemetry.flight_recorder import step_part
from sampan.storage.backend import Backend, KeyValue, StorageError, StoreConflict
from sampan.storage.cacher import CacheItem, Cacher
from sampan.storage.cacher.item import replace_version, splice

TOO_LARGE_MESSAGE = "etcdserver: request is too large"
"""The message for an object that is too large to store. kube-apiserver returns this error of etcd as a Status with code
500 and without a reason.
"""
AdmissionCheck = Callable[[Any, Any | None], Awaitable[None]]
"""Validating admission of a new object and the old one, which is None for a create."""
UpdateFunc = Callable[[Any], Awaitable[Any]]
"""A function from a private copy of the current object to the updated one."""
MakeUpdated = Callable[[StoredObject], Awaitable[Any]]
"""A function from the stored state to the updated object, which it does not keep; called again after a conflict."""
MakeNew = Callable[[], Awaitable[Any]]
IsStale = Callable[[str], Awaitable[bool]]
"""Whether the value of a key must be rewritten even if the object is unchanged, because its encryption or its version
is outdated."""
ReadBack = Callable[[bytes], Awaitable[bytes]]
"""A function from an encoded object to what a read returns after it was stored."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write: the object, its bytes as clients see them, and whether it was created or deleted."""

    obj: Any
    raw: bytes
    created: bool = False
    deleted: bool = False


async def _skip_check(obj: Any, old: Any | None) -> None:
    return None


class Store:
    def __init__(
        self,
        *,
        resource: Resource,
        strategy: Strategy,
        backend: Backend,
        cacher: Cacher,
        stored_objects: StoredObjects,
        codec: ResourceCodec,
        clock: Clock,
        gated_fields: GatedFields,
        ttl_s: float | None = None,
        is_stale: IsStale | None = None,
        read_back: ReadBack | None = None,
    ) -> None:
        self.resource, self.strategy = resource, strategy
        self.backend, self.cacher, self.codec, self.clock = backend, cacher, codec, clock
        self.stored_objects, self._ttl_s = stored_objects, ttl_s
        self._is_stale, self._read_back = is_stale, read_back
        self._gated_fields = gated_fields

    def key(self, namespace: str, name: str) -> str:
        return self.cacher.shape.key(namespace, name)

    async def get(self, namespace: str, name: str, resource_version: str = "") -> CacheItem:
        metadata.check_name_in_path(name)
        item = await self.cacher.get(namespace, name, resource_version=resource_version)
        if item is None:
            raise self.not_found_error(name)
        return item

    def peek(self, namespace: str, name: str) -> Any | None:
        """Return the decoded object in the cache, which is shared and read-only."""
        item = self.cacher.peek(namespace, name)
        return item.object(self.codec.decode) if item is not None else None

    def not_found_error(self, name: str) -> errors.ApiError:
        return errors.not_found(self.resource.plural, name, group=self.resource.group)

    # -- create ------------------------------------------------------------------------------------------------------

    async def create(
        self, ctx: Context, obj: Any, *, strategy: Strategy | None = None, check: AdmissionCheck = _skip_check
    ) -> WriteResult:
        rules = strategy or self.strategy
        if obj.metadata.name or not obj.metadata.generateName:
            return await self._create(ctx, obj, rules, check)
        pristine = self.codec.encode(obj)
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._create(ctx, obj, rules, check)
            except errors.AlreadyExists:
                obj = self.codec.decode(pristine)
        return await self._create(ctx, obj, rules, check)

    async def _create(self, ctx: Context, obj: Any, strategy: Strategy, check: AdmissionCheck) -> WriteResult:
        try:
            return await self._make(ctx, obj, strategy, check)
        except StoreConflict as conflict:
            raise self._already_exists_error(obj.metadata, conflict.current) from None

    async def _make(self, ctx: Context, obj: Any, strategy: Strategy, check: AdmissionCheck) -> WriteResult:
        """Prepare, validate and store a new object. Raise `StoreConflict` if the name is taken."""
        self._fill_system_fields(ctx, obj.metadata)
        async with _FinishGuard(await strategy.begin_write(ctx, obj, None)):
            strategy.prepare_for_create(ctx, obj)
            self._gated_fields.drop(obj, None)
            await ctx.compute(self._check_new, ctx, obj, strategy)
            await check(obj, None)
            return await self._put_new(ctx, obj)

    def _fill_system_fields(self, ctx: Context, meta: Any) -> None:
        metadata.wipe_system_fields(meta)
        meta.creationTimestamp, meta.uid = ctx.now, str(uuid.uuid4())
        meta.namespace = ctx.namespace if self.resource.namespaced else ""
        if meta.generateName and not meta.name:
            meta.name = generate_name(meta.generateName)
        if self.strategy.counts_generation:
            meta.generation = 1

    def _check_new(self, ctx: Context, obj: Any, strategy: Strategy) -> None:
        field_errors = metadata.validate_object_meta(
            obj.metadata,
            self.resource.namespaced,
            strategy.validate_name,
            needs_qualified_finalizers=self.strategy.needs_qualified_finalizers,
        )
        own = collect_errors(strategy.validate_create(ctx, obj))
        reported = own if own and strategy.metadata_last else field_errors + own
        reported = complete_errors(reported, obj, None, ctx.is_enabled)
        if reported:
            raise self._invalid(obj, reported)
        ctx.warn_all(strategy.warnings(ctx, obj, None))

    async def _put_new(self, ctx: Context, obj: Any) -> WriteResult:
        meta = obj.metadata
        key = self.key(meta.namespace, meta.name)
        if ctx.dry_run:
            if (entry := (await self.backend.get(key))[0]) is not None:
                raise StoreConflict(key, entry)
            obj, raw = await self._see_as_stored(obj, self.codec.encode(obj))
            return WriteResult(obj, raw, created=True)
        metadata.refuse_version_of_new(meta.resourceVersion)
        meta.resourceVersion = ""
        raw = await ctx.compute(self.codec.encode, obj)
        _check_size(raw)
        with step_part("write to the store"):
            revision = await self._put(key, raw, expected=0)
        obj, raw = await self._see_as_stored(obj, raw)
        return self._make_result(obj, raw, revision, created=True)

    def _already_exists_error(self, meta: Any, entry: KeyValue | None) -> errors.ApiError:
        make_error = errors.name_not_generated if meta.generateName else errors.already_exists
        error = make_error(self.resource.plural, meta.name, group=self.resource.group)
        stored = self.stored_objects.from_entry(entry)
        if stored is not None and stored.obj.metadata.deletionTimestamp is not None:
            error.status["message"] = f"object is being deleted: {error.message}"
        return error

    # -- update ------------------------------------------------------------------------------------------------------

    async def update(
        self,
        ctx: Context,
        name: str,
        change: UpdateFunc,
        *,
        strategy: Strategy | None = None,
        check: AdmissionCheck = _skip_check,
    ) -> WriteResult:
        """Change the object, and retry from the newer state after a conflict."""

        async def make_updated(stored: StoredObject) -> Any:
            return await change(stored.copy())

        return await self.replace(ctx, name, make_updated, strategy=strategy, check=check)

    async def replace(
        self,
        ctx: Context,
        name: str,
        make_updated: MakeUpdated,
        *,
        strategy: Strategy | None = None,
        check: AdmissionCheck = _skip_check,
        create: MakeNew | None = None,
        check_new: AdmissionCheck = _skip_check,
        uid: str = "",
    ) -> WriteResult:
        """Replace the current object with the result of `make_updated`.

        The result's `metadata.resourceVersion` is the version it must replace ("" for any); `uid` is the UID that the
        current object must have. With `create`, a missing object is created from the result of that function.
        """
        rules = strategy or self.strategy

        async def act(stored: StoredObject | None) -> WriteResult:
            if stored is None and create is None:
                raise self.not_found_error(name)
            if uid:
                obj = stored.obj if stored is not None else None
                preconditions.check_stored(self.resource, self.key(ctx.namespace, name), obj, uid=uid)
            if stored is not None:
                return await self._change(ctx, stored, await make_updated(stored), rules, check)
            assert create is not None
            return await self._make_by_update(ctx, await create(), rules, check_new)

        metadata.check_name_in_path(name)
        return await self.stored_objects.guaranteed_update(ctx.namespace, name, act, from_store=ctx.dry_run)

    async def _make_by_update(self, ctx: Context, obj: Any, strategy: Strategy, check: AdmissionCheck) -> WriteResult:
        """Create an object that an update did not find. Its resourceVersion is ignored, but must be well-formed."""
        preconditions.version_number(obj.metadata.resourceVersion)
        obj.metadata.resourceVersion = ""
        return await self._make(ctx, obj, strategy, check)

    async def _change(
        self, ctx: Context, stored: StoredObject, obj: Any, strategy: Strategy, check: AdmissionCheck
    ) -> WriteResult:
        may_be_missing = strategy.allow_unconditional_update or ctx.version in strategy.lenient_versions
        preconditions.check_version(self.resource, obj, stored.revision, may_be_missing=may_be_missing)
        old = stored.obj
        async with _FinishGuard(await strategy.begin_write(ctx, obj, old)):
            self._prepare_change(ctx, obj, old, strategy)
            permission_errors = await strategy.validate_permissions(ctx, obj, old)
            await ctx.compute(self._check_change, ctx, obj, old, strategy, permission_errors)
            _keep_times(obj, old)
            await check(obj, old)
            if self.strategy.is_finished(obj):
                return await self._remove_by_update(ctx, obj, stored)
            return await self._put_changed(ctx, obj, stored)

    def _prepare_change(self, ctx: Context, obj: Any, old: Any, strategy: Strategy) -> None:
        obj.metadata.generation = old.metadata.generation
        strategy.prepare_for_update(ctx, obj, old)
        self._gated_fields.drop(obj, old, subresource=ctx.subresource)
        metadata.keep_system_fields(obj.metadata, old.metadata)
        if strategy.counts_generation and strategy.spec_of(obj) != strategy.spec_of(old):
            obj.metadata.generation = old.metadata.generation + 1

    def _check_change(
        self, ctx: Context, obj: Any, old: Any, strategy: Strategy, permission_errors: Sequence[FieldError]
    ) -> None:
        is_needed = self.strategy.needs_qualified_finalizers
        field_errors = metadata.validate_object_meta_update(
            obj.metadata, old.metadata, needs_qualified_finalizers=is_needed
        )
        field_errors.extend(permission_errors)
        field_errors.extend(collect_errors(strategy.validate_update(ctx, obj, old)))
        field_errors = complete_errors(
            field_errors,
            obj,
            old,
            strategy.declarative_options(ctx, old),
            validates_immutable_parts=strategy.validates_immutable_parts,
        )
        if field_errors:
            raise self._invalid(obj, field_errors)
        ctx.warn_all(strategy.warnings(ctx, obj, old))

    async def _put_changed(self, ctx: Context, obj: Any, stored: StoredObject) -> WriteResult:
        """Store the object, unless nothing has changed."""
        meta = obj.metadata
        meta.resourceVersion = ""
        raw = await ctx.compute(self.codec.encode, obj)
        unchanged = self._splice_revision(raw, stored.revision)
        if ctx.dry_run or (unchanged == stored.raw and not await self._is_to_be_rewritten(stored)):
            await self.stored_objects.check_current(stored)
            obj, raw = await self._see_as_stored(obj, raw)
            return self._make_result(obj, raw, stored.revision)
        if meta.deletionTimestamp is None:  # the deletion of an object that is stored already must remain possible
            _check_size(raw)
        key = stored.item.key
        revision = await self._put(key, raw, expected=stored.revision)
        obj, raw = await self._see_as_stored(obj, raw)
        return self._make_result(obj, raw, revision)

    async def _is_to_be_rewritten(self, stored: StoredObject) -> bool:
        return self._is_stale is not None and await self._is_stale(stored.item.key)

    async def _remove_by_update(self, ctx: Context, obj: Any, stored: StoredObject) -> WriteResult:
        """Remove an object whose last finalizer was removed. That last state of it is returned but never stored."""
        await self._remove(ctx, obj, stored)
        obj.metadata.resourceVersion = ""
        raw = self._splice_revision(self.codec.encode(obj), stored.revision)
        obj.metadata.resourceVersion = str(stored.revision)
        return WriteResult(obj, raw, deleted=True)

    # -- delete ------------------------------------------------------------------------------------------------------

    async def delete(
        self,
        ctx: Context,
        name: str,
        options: DeleteOptions,
        *,
        strategy: Strategy | None = None,
        check: AdmissionCheck = _skip_check,
    ) -> WriteResult:
        rules = strategy or self.strategy
        for text in rules.delete_warnings(ctx, options):
            ctx.warn(text)

        async def act(stored: StoredObject | None) -> WriteResult:
            if stored is None:
                raise self.not_found_error(name)
            obj = stored.copy()
            preconditions.check(obj, uid=options.uid, resource_version=options.resource_version)
            await check(obj, obj)
            return await self._delete(ctx, obj, stored, options, rules)

        metadata.check_name_in_path(name)
        return await self.stored_objects.guaranteed_update(ctx.namespace, name, act, from_store=ctx.dry_run)

    async def delete_unreadable(self, ctx: Context, name: str) -> None:
        """Remove an object whose stored value cannot be decoded; finalizers and preconditions cannot be read. Raise
        Conflict if it can be decoded."""
        metadata.check_name_in_path(name)
        key = self.key(ctx.namespace, name)
        entry, _ = await self.backend.get(key)
        if entry is None:
            raise self.not_found_error(name)
        if self.stored_objects.is_readable(entry):
            text = "unsafe deletion is not allowed because the object is decodable from storage"
            why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
            raise errors.conflict(self.resource.plural, name, why, group=self.resource.group)
        if not ctx.dry_run:
            try:
                await self.backend.delete(key, expected=entry.revision)
            except StoreConflict:
                raise errors.conflict(self.resource.plural, name, group=self.resource.group) from None

    async def _delete(
        self, ctx: Context, obj: Any, stored: StoredObject, options: DeleteOptions, strategy: Strategy
    ) -> WriteResult:
        policy = deletion.policy_of(options, strategy.default_garbage_collection_policy, obj.metadata.finalizers)
        requested_s, now = options.grace_period_seconds, self.clock.now()
        action = strategy.mark_deleted(ctx, obj, requested_s=requested_s, policy=policy, now=now)
        if action is DeletionAction.NONE:
            await self.stored_objects.check_current(stored)
            return WriteResult(obj, stored.raw)
        if action is DeletionAction.REMOVE:
            revision = await self._remove(ctx, obj, stored)
            obj.metadata.resourceVersion = str(revision)
            return WriteResult(obj, stored.item.with_revision(revision).raw, deleted=True)
        marked = await self._put_changed(ctx, obj, stored)
        return await self._remove_marked(ctx, marked) if action is DeletionAction.MARK_AND_REMOVE else marked

    async def _remove_marked(self, ctx: Context, marked: WriteResult) -> WriteResult:
        """Remove an object that was marked as deleted just now, and return its last state.

        If it was updated in the meantime, the newer state is removed. If it was removed, or another object has its name
        now, there is nothing left to do.
        """
        if ctx.dry_run:
            return WriteResult(marked.obj, marked.raw, deleted=True)
        meta = marked.obj.metadata
        stored = revision = int(meta.resourceVersion)
        expected: int | None = stored
        while expected is not None:
            try:
                revision = await self.backend.delete(self.key(meta.namespace, meta.name), expected=expected)
                break
            except StoreConflict as conflict:
                current = self.stored_objects.from_entry(conflict.current)
                expected = current.revision if current is not None and current.obj.metadata.uid == meta.uid else None
        await self.strategy.after_delete(ctx, marked.obj)
        meta.resourceVersion = str(revision)
        return WriteResult(marked.obj, self._replace_revision(marked.raw, stored, revision), deleted=True)

    async def _remove(self, ctx: Context, obj: Any, stored: StoredObject) -> int:
        """Remove the stored object and return the revision of its removal."""
        if ctx.dry_run:
            return stored.revision
        revision = await self.backend.delete(stored.item.key, expected=stored.revision)
        await self.strategy.after_delete(ctx, obj)
        return revision

    # -- parts -------------------------------------------------------------------------------------------------------

    async def _put(self, key: str, raw: bytes, *, expected: int) -> int:
        try:
            return await self.backend.put(key, raw, expected=expected, ttl_s=self._ttl_s)
        except StorageError as error:
            if TOO_LARGE_MESSAGE in str(error):  # etcd's own limit may be lower, and it includes escapes
                raise errors.unexpected_error(TOO_LARGE_MESSAGE) from error
            raise

    async def _see_as_stored(self, obj: Any, raw: bytes) -> tuple[Any, bytes]:
        """Return an object and its bytes as a read returns them after they were stored."""
        if self._read_back is None:
            return obj, raw
        stored = await self._read_back(raw)
        return (obj, raw) if stored is raw else (self.codec.decode(stored), stored)

    def _invalid(self, obj: Any, field_errors: list[FieldError]) -> errors.ApiError:
        return errors.invalid(self.resource.kind, obj.metadata.name, field_errors, group=self.resource.group)

    def _make_result(self, obj: Any, raw: bytes, revision: int, *, created: bool = False) -> WriteResult:
        obj.metadata.resourceVersion = str(revision)
        return WriteResult(obj, self._splice_revision(raw, revision), created=created)

    def _splice_revision(self, raw: bytes, revision: int) -> bytes:
        head, body = splice(raw, revision, self.cacher.shape.head)
        return head + body

    def _replace_revision(self, raw: bytes, old: int, new: int) -> bytes:
        head = self.cacher.shape.head
        return head + replace_version(raw[len(head) :], old, new)


def _check_size(raw: bytes) -> None:
    """Raise kube-apiserver's error for an object that is too large for etcd, whichever store is in use.

    kube-apiserver stores most kinds as protobuf, which has no escapes. JSON escapes are not counted here either, so
    that a ConfigMap with a megabyte of lines fits here too.
    """
    if len(raw) <= limits.STORED_OBJECT_BYTES:
        return
    plain = raw.replace(b"\\\\", b"/")
    if len(plain) - plain.count(b"\\") - 4 * plain.count(b"\\u00") > limits.STORED_OBJECT_BYTES:
        raise errors.unexpected_error(TOO_LARGE_MESSAGE)


def _keep_times(obj: Any, old: Any) -> None:
    """Restore the timestamps of the managed fields if they are the only change, so that the update is a no-op."""
    before, after = old.metadata.managedFields, obj.metadata.managedFields
    if not differ_in_time_only(before, after):
        return
    version = obj.metadata.resourceVersion
    obj.metadata.managedFields, obj.metadata.resourceVersion = before, old.metadata.resourceVersion
    if not _is_same(obj, old):
        obj.metadata.managedFields = after
    obj.metadata.resourceVersion = version


def _is_same(obj: Any, old: Any) -> bool:
    if isinstance(obj, Unstructured):
        return bool(obj.metadata == old.metadata and obj.content == old.content)
    return bool(obj == old)


class _FinishGuard:
    """Reports to the strategy whether the write inside the block succeeded."""

    __slots__ = ("_finish",)

    def __init__(self, finish: FinishFunc | None) -> None:
        self._finish = finish

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if self._finish is not None:
            await self._finish(failure is None)
