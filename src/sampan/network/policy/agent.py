"""Network policies of one node: informers feed the compiler, and the pod network waits for its transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

from sampan.api.limits import NETWORK_POLICY_PEERS
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.types.core_v1 import Namespace, Pod
from sampan.api.types.networking_v1 import NetworkPolicy
from sampan.host.clock import Clock
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection
from sampan.machinery.client.transport import ConnectionFailed
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.network.nft import NftError
from sampan.network.pods.config import network_failure
from sampan.network.policy.compiler import PolicyConfig
from sampan.network.policy.enforcer import PolicyEnforcer
from sampan.network.policy.pods import endpoint_of
from sampan.network.policy.policy_spec import PolicySpec, is_truncated, policy_spec

log = logging.getLogger(__name__)

COMPONENT = "network-policy"
LIMIT_REASON = "NetworkPolicyTooLarge"
"""The reason of the event about a policy that exceeds the number of rules that a node allows."""
_AUDIT_S = 60.0
_RETRY_S = 1.0
_POD_SYNC_TIMEOUT_S = 2.0
"""Seconds for which a new pod waits until the informers know it. After that the pod starts, isolated until they know
it."""
_LIST_S = 2.0


class NetworkPolicyAgent:
    """A `PodIsolation` that follows NetworkPolicies, pods and namespaces. `run` works until it is cancelled.

    Before a pod is connected, the policies of its namespace are listed: a policy that was created before the pod is in
    effect with its first packet, however far behind the informer is.
    """

    def __init__(
        self,
        *,
        config: PolicyConfig,
        namespace: NetworkNamespace,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
    ) -> None:
        self._enforcer = PolicyEnforcer(config=config, namespace=namespace, clock=clock)
        self._compiler = self._enforcer.compiler
        self._client, self._clock = client, clock
        self._pods, self._policies = informers.for_kind(Pod), informers.for_kind(NetworkPolicy)
        self._namespaces = informers.for_kind(Namespace)
        self._has_changes = asyncio.Event()
        self._awaited: dict[str, asyncio.Event] = {}
        """Sandboxes whose pods the informers do not know yet, by uid."""
        self._listed: dict[NamespacedName, NetworkPolicy] = {}
        """Policies that were listed for a new pod and that the informer has not reached."""
        self._listed_at: dict[NamespacedName, float] = {}
        self._events = EventRecorder(client=client, clock=clock, component=COMPONENT, host=config.node)
        self._reported: dict[NamespacedName, tuple[str, int]] = {}
        """UIDs and generations of policies above the limit that have been reported."""

    # -- PodIsolation ------------------------------------------------------------------------------------------------

    def adopt(self, uid: str, addresses: Sequence[str]) -> None:
        self._compiler.attach(uid, addresses)
        self._on_change()

    async def isolate(self, uid: str, addresses: Sequence[str]) -> None:
        try:
            if self._compiler.pod_of(uid) is None:
                await self._isolate_unknown(uid, addresses)
            if (pod := self._compiler.pod_of(uid)) is not None:
                await self._list_policies(pod.namespace)
                await self._enforcer.isolate(uid, addresses)
        except NftError as error:
            raise network_failure(f"network policies: {error}") from None

    async def release(self, uid: str) -> None:
        """Delete the elements of the addresses of a pod. They are deleted before another pod can get the addresses."""
        try:
            await self._enforcer.release(uid)
        except NftError as error:
            raise network_failure(f"network policies: {error}") from None

    async def remove_all(self) -> None:
        try:
            await self._enforcer.remove_all()
        except NftError as error:
            log.warning("cannot remove the rules of network policies: %s", error)

    def close(self) -> None:
        """Release resources of this process; the policies stay in effect."""
        self._enforcer.close()

    async def _isolate_unknown(self, uid: str, addresses: Sequence[str]) -> None:
        """Isolate a pod that the informers do not know yet, and wait until they do.

        The wait is registered before the rules are written, because the informers may deliver the pod in the meantime.
        """
        event = self._awaited[uid] = asyncio.Event()
        try:
            await self._enforcer.isolate(uid, addresses)
            async with asyncio.timeout(_POD_SYNC_TIMEOUT_S):
                await event.wait()
        except TimeoutError:
            log.warning("pod %s stays isolated until the network policy informers know it", uid)
        finally:
            del self._awaited[uid]

    async def _list_policies(self, namespace: str) -> None:
        try:
            async with asyncio.timeout(_LIST_S):
                page = await self._client.for_kind(NetworkPolicy).list_all(Selection(namespace=namespace))
        except (errors.ApiError, ConnectionFailed, TimeoutError) as error:
            log.warning("cannot list network policies of %s, using those known so far: %s", namespace, error)
            return
        for policy in page.items:
            key = key_of(policy)
            if not _is_newer(self._policies.lister.get_by_key(key), policy):
                self._listed[key] = policy
                self._listed_at[key] = self._clock.monotonic()
                self._put_policy(key)

    # -- informers ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Enforce policies until cancelled."""
        with ExitStack() as stack:
            stack.callback(await self._namespaces.follow(self._on_namespace))
            stack.callback(await self._policies.follow(self._on_policy))
            stack.callback(await self._pods.follow(self._on_pod))
            for informer in (self._namespaces, self._policies, self._pods):
                await informer.synced.wait()
            self._forget_deleted()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events.run())
                group.create_task(self._commit_changes())
                group.create_task(self._audit())

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        name = key_of(new or old).name
        self._compiler.put_namespace(name, new.metadata.labels if new is not None else None)
        self._on_change()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        key = key_of(new or old)
        endpoint = endpoint_of(new) if new is not None else None
        self._compiler.put_pod(key, endpoint)
        if endpoint is not None and self._awaited:
            for uid in (endpoint.uid, endpoint.static_uid):
                if uid in self._awaited:
                    self._awaited[uid].set()
        self._on_change()

    def _on_policy(self, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        key = key_of(new or old)
        if new is None or _is_newer(new, self._listed.get(key)):
            self._unlist(key)
        self._put_policy(key)

    def _put_policy(self, key: NamespacedName) -> None:
        policy = self._listed.get(key) or self._policies.lister.get_by_key(key)
        self._report_limit(key, policy)
        self._compiler.put_policy(key, _spec_of(policy) if policy is not None else None)
        self._on_change()

    def _report_limit(self, key: NamespacedName, policy: NetworkPolicy | None) -> None:
        """Report a policy above the limit, once for each generation."""
        if policy is None or not is_truncated(policy):
            self._reported.pop(key, None)
            return
        version = policy.metadata.uid, policy.metadata.generation
        if self._reported.get(key) != version:
            self._reported[key] = version
            message = f"more than {NETWORK_POLICY_PEERS} peers and ports in a direction: further rules allow nothing"
            log.warning("network policy %s: %s", key, message)
            self._events.event(policy, WARNING, LIMIT_REASON, message)

    def _unlist(self, key: NamespacedName) -> None:
        self._listed.pop(key, None)
        self._listed_at.pop(key, None)

    def _forget_deleted(self) -> None:
        """Remove policies, pods and namespaces that were deleted without a watch event that this agent has seen.

        Such objects were deleted while the agent did not follow the informers, or before an informer knew them.
        """
        for key, listed_at in list(self._listed_at.items()):
            if listed_at + _AUDIT_S < self._clock.monotonic():
                self._unlist(key)
        for key in self._compiler.policy_keys():
            self._put_policy(key)
        for key in self._compiler.pod_keys():
            if self._pods.lister.get_by_key(key) is None:
                self._compiler.put_pod(key, None)
        for name in self._compiler.namespace_names():
            if self._namespaces.lister.get(name) is None:
                self._compiler.put_namespace(name, None)
        self._on_change()

    def _on_change(self) -> None:
        if self._compiler.table.is_changed:
            self._has_changes.set()

    # -- transactions ------------------------------------------------------------------------------------------------

    async def _commit_changes(self) -> None:
        await self._retry(self._enforcer.start)
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            await self._retry(self._enforcer.commit)

    async def _audit(self) -> None:
        while True:
            await self._clock.sleep(_AUDIT_S)
            self._forget_deleted()
            await self._retry(self._enforcer.commit)
            await self._retry(self._enforcer.audit)

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except NftError as error:
                log.error("cannot enforce network policies; trying again in %g s: %s", _RETRY_S, error)
            await self._clock.sleep(_RETRY_S)


def _is_newer(policy: NetworkPolicy | None, other: NetworkPolicy | None) -> bool:
    """Whether a policy is at least as new as the other."""
    if policy is None or other is None:
        return other is None
    return int(policy.metadata.resourceVersion or 0) >= int(other.metadata.resourceVersion or 0)


def _spec_of(policy: NetworkPolicy) -> PolicySpec | None:
    try:
        return policy_spec(policy)
    except SelectorError as error:
        log.warning("ignoring network policy %s: %s", key_of(policy), error)
        return None
