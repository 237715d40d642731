"""Create, update and delete for every kind, the same way; reads come from the cacher.

A write encodes the object once; the bytes go to the backend, and what comes back from it is that object with its new
resource version spliced in. Nothing here knows a kind: what differs is in the `Strategy`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sampan.api.resource import Resource
from sampan.apiserver.registry import deletion, metadata
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.generated_names import ATTEMPTS, generated_name
from sampan.apiserver.registry.strategy import Context, Finish, Strategy
from sampan.machinery import errors
from sampan.machinery.clock import Clock
from sampan.machinery.errors import FieldError
from sampan.storage.backend import Backend, Conflict, Entry
from sampan.storage.cacher import Cacher, Item
from sampan.storage.cacher.splice import splice

_UID_DIFFERS = (
    "the UID in the precondition ({}) does not match the UID in record ({}). "
    "The object might have been deleted and then recreated"
)
_VERSION_DIFFERS = (
    "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({}). "
    "The object might have been modified"
)

Check = Callable[[Any, Any | None], Awaitable[None]]
"""Validating admission: the new object and the old one, None for a create."""
Change = Callable[[Any], Awaitable[Any]]
"""From a private copy of the present object to the wanted one."""


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object, its bytes as a client sees them, and whether it is new."""

    obj: Any
    raw: bytes
    created: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class _State:
    """What is stored now: the bytes as clients see them, and the revision to compare and swap with."""

    raw: bytes
    revision: int


async def _no_check(obj: Any, old: Any | None) -> None:
    return None


class Store:
    def __init__(
        self,
        *,
        resource: Resource,
        strategy: Strategy,
        backend: Backend,
        cacher: Cacher,
        codec: ResourceCodec,
        clock: Clock,
        ttl_s: float | None = None,
    ) -> None:
        self.resource, self.strategy = resource, strategy
        self.backend, self.cacher, self.codec, self.clock = backend, cacher, codec, clock
        self._ttl_s = ttl_s

    def key(self, namespace: str, name: str) -> str:
        prefix = self.resource.storage_prefix
        return f"{prefix}/{namespace}/{name}" if self.resource.namespaced else f"{prefix}/{name}"

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Item:
        item = await self.cacher.get(namespace, name, resource_version=resource_version)
        if item is None:
            raise self.not_found(name)
        return item

    def peek(self, namespace: str, name: str) -> Any | None:
        """The decoded object in the cache now, shared and read-only."""
        item = self.cacher.peek(namespace, name)
        return item.object(self.codec.decode) if item is not None else None

    def not_found(self, name: str) -> errors.ApiError:
        return errors.not_found(self.resource.plural, name, group=self.resource.group)

    # -- create ------------------------------------------------------------------------------------------------------

    async def create(
        self, ctx: Context, obj: Any, *, strategy: Strategy | None = None, check: Check = _no_check
    ) -> Written:
        strategy = strategy or self.strategy
        meta = obj.metadata
        generates = not meta.name and bool(meta.generateName)
        self._fill_system_fields(ctx, obj)
        for attempt in range(ATTEMPTS if generates else 1):
            if generates:
                meta.name = generated_name(meta.generateName)
            try:
                return await self._create_once(ctx, obj, strategy, check)
            except errors.AlreadyExists:
                if not generates:
                    raise
                if attempt == ATTEMPTS - 1:
                    plural, group = self.resource.plural, self.resource.group
                    raise errors.name_not_generated(plural, meta.name, group=group) from None
        raise AssertionError("unreachable")

    def _fill_system_fields(self, ctx: Context, obj: Any) -> None:
        meta = obj.metadata
        meta.creationTimestamp = ctx.now
        meta.uid = str(uuid.uuid4())
        meta.deletionTimestamp = None
        meta.deletionGracePeriodSeconds = None
        meta.selfLink = ""
        meta.generation = 1 if self.strategy.counts_generation else meta.generation
        if self.resource.namespaced:
            meta.namespace = ctx.namespace
        else:
            meta.namespace = ""

    async def _create_once(self, ctx: Context, obj: Any, strategy: Strategy, check: Check) -> Written:
        async with _Finished(await strategy.begin(ctx, obj, None)):
            strategy.prepare_create(ctx, obj)
            faults = metadata.faults_of_new(obj.metadata, self.resource.namespaced, strategy.name_faults)
            faults.extend(strategy.validate_create(ctx, obj))
            if faults:
                raise self._invalid(obj, faults)
            for text in strategy.warnings(ctx, obj, None):
                ctx.warn(text)
            await check(obj, None)
            return await self._put_new(ctx, obj)

    async def _put_new(self, ctx: Context, obj: Any) -> Written:
        meta = obj.metadata
        meta.resourceVersion = ""
        key, raw = self.key(meta.namespace, meta.name), self.codec.encode(obj)
        if ctx.dry_run:
            if self.cacher.peek(meta.namespace, meta.name) is not None:
                raise self._already_exists(meta.name, await self._state(meta.namespace, meta.name))
            return Written(obj, raw, created=True)
        try:
            revision = await self.backend.put(key, raw, expected=0, ttl_s=self._ttl_s)
        except Conflict as conflict:
            raise self._already_exists(meta.name, self._entry_state(conflict.current)) from None
        return self._written(obj, raw, revision, created=True)

    def _already_exists(self, name: str, state: _State | None) -> errors.ApiError:
        is_leaving = state is not None and self.codec.decode(state.raw).metadata.deletionTimestamp is not None
        answer = errors.being_deleted if is_leaving else errors.already_exists
        return answer(self.resource.plural, name, group=self.resource.group)

    def _written(self, obj: Any, raw: bytes, revision: int, *, created: bool = False) -> Written:
        obj.metadata.resourceVersion = str(revision)
        return Written(obj, self._spliced(raw, revision), created=created)

    # -- update ------------------------------------------------------------------------------------------------------

    async def update(
        self,
        ctx: Context,
        name: str,
        change: Change,
        *,
        strategy: Strategy | None = None,
        check: Check = _no_check,
        create: Callable[[], Awaitable[Any]] | None = None,
    ) -> Written:
        """Change the object by compare and swap, again from the newer state if another writer was faster.

        `change` says in `metadata.resourceVersion` of what it returns which state it insists on ("" for none). With
        `create`, a missing object is made from what that gives.
        """
        strategy = strategy or self.strategy
        state = await self._state(ctx.namespace, name)
        while True:
            if state is None:
                if create is None or not strategy.create_on_update:
                    raise self.not_found(name)
                return await self.create(ctx, await create(), strategy=strategy, check=check)
            old = self.codec.decode(state.raw)
            obj = await change(self.codec.decode(state.raw))
            self._check_version(obj, old, strategy)
            try:
                async with _Finished(await strategy.begin(ctx, obj, old)):
                    self._prepare_update(ctx, obj, old, strategy)
                    await check(obj, old)
                    return await self._put_changed(ctx, obj, state)
            except Conflict as conflict:
                state = self._entry_state(conflict.current)

    async def _state(self, namespace: str, name: str) -> _State | None:
        item = await self.cacher.get(namespace, name)
        return None if item is None else _State(item.raw, item.revision)

    def _check_version(self, obj: Any, old: Any, strategy: Strategy) -> None:
        wanted = obj.metadata.resourceVersion
        if wanted in ("", "0"):
            if not strategy.unconditional_update:
                fault = FieldError.invalid(metadata.METADATA / "resourceVersion", 0, "must be specified for an update")
                raise errors.invalid(self.resource.plural, obj.metadata.name, [fault], group=self.resource.group)
        elif wanted != old.metadata.resourceVersion:
            raise errors.conflict(self.resource.plural, obj.metadata.name, group=self.resource.group)

    def _prepare_update(self, ctx: Context, obj: Any, old: Any, strategy: Strategy) -> None:
        meta, before = obj.metadata, old.metadata
        meta.generation = before.generation
        strategy.prepare_update(ctx, obj, old)
        metadata.keep_system_fields(meta, before)
        if strategy.counts_generation and strategy.spec_of(obj) != strategy.spec_of(old):
            meta.generation = before.generation + 1
        faults = metadata.faults_of_change(meta, before)
        faults = [*faults, *faults, *strategy.validate_update(ctx, obj, old)]  # the real server tells them twice
        if faults:
            raise self._invalid(obj, faults)
        for text in strategy.warnings(ctx, obj, old):
            ctx.warn(text)

    async def _put_changed(self, ctx: Context, obj: Any, state: _State) -> Written:
        meta = obj.metadata
        if self.strategy.is_finished(obj):
            return await self._remove(ctx, obj, state.revision)
        meta.resourceVersion = ""
        raw = self.codec.encode(obj)
        spliced = self._spliced(raw, state.revision)
        if ctx.dry_run or spliced == state.raw:
            meta.resourceVersion = str(state.revision)
            return Written(obj, spliced)
        revision = await self.backend.put(
            self.key(meta.namespace, meta.name), raw, expected=state.revision, ttl_s=self._ttl_s
        )
        return self._written(obj, raw, revision)

    # -- delete ------------------------------------------------------------------------------------------------------

    async def delete(
        self,
        ctx: Context,
        name: str,
        options: DeleteOptions,
        *,
        strategy: Strategy | None = None,
        check: Check = _no_check,
    ) -> Written:
        strategy = strategy or self.strategy
        state = await self._state(ctx.namespace, name)
        while True:
            if state is None:
                raise self.not_found(name)
            obj = self.codec.decode(state.raw)
            self._check_preconditions(obj, options)
            await check(obj, obj)
            policy = deletion.policy_of(options, strategy.orphans_by_default, obj.metadata.finalizers)
            plan = strategy.mark_deleted(
                ctx, obj, asked_s=options.grace_period_seconds, policy=policy, now=self.clock.now()
            )
            try:
                if not plan.keep:
                    return await self._remove(ctx, obj, state.revision)
                return await self._put_changed(ctx, obj, state)
            except Conflict as conflict:
                state = self._entry_state(conflict.current)

    def _check_preconditions(self, obj: Any, options: DeleteOptions) -> None:
        meta = obj.metadata
        if options.uid and options.uid != meta.uid:
            why = _UID_DIFFERS.format(options.uid, meta.uid)
        elif options.resource_version and options.resource_version != meta.resourceVersion:
            why = _VERSION_DIFFERS.format(options.resource_version, meta.resourceVersion)
        else:
            return
        raise errors.conflict(self.resource.kind, meta.name, why, group=self.resource.group)

    async def _remove(self, ctx: Context, obj: Any, revision: int) -> Written:
        meta = obj.metadata
        if not ctx.dry_run:
            revision = await self.backend.delete(self.key(meta.namespace, meta.name), expected=revision)
            await self.strategy.release(ctx, obj)
        meta.resourceVersion = ""
        raw = self.codec.encode(obj)
        meta.resourceVersion = str(revision)
        return Written(obj, self._spliced(raw, revision), deleted=True)

    def _invalid(self, obj: Any, faults: list[errors.FieldError]) -> errors.ApiError:
        return errors.invalid(self.resource.kind, obj.metadata.name, faults, group=self.resource.group)

    def _entry_state(self, entry: Entry | None) -> _State | None:
        return None if entry is None else _State(self._spliced(entry.value, entry.revision), entry.revision)

    def _spliced(self, raw: bytes, revision: int) -> bytes:
        head, body = splice(raw, revision, self.cacher.shape.head)
        return head + body


class _Finished:
    """Tells the strategy how the write in its block ended."""

    __slots__ = ("_finish",)

    def __init__(self, finish: Finish | None) -> None:
        self._finish = finish

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if self._finish is not None:
            await self._finish(failure is None)
