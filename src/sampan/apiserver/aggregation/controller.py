"""Follows the APIServices: which group versions other servers serve, whether they are available, and which resources
they offer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from sampan.api.semantics.conditions import find_condition
from sampan.api.semantics.endpoint_slices import has_ready_endpoint
from sampan.api.types.apiregistration_v1 import APIService, APIServiceCondition
from sampan.api.types.core_v1 import Service
from sampan.api.values import times
from sampan.apiserver.aggregation.discovery_documents import InvalidDiscovery, resource_list
from sampan.apiserver.aggregation.openapi_documents import InvalidOpenApi
from sampan.apiserver.aggregation.registrations import LocalRegistrations
from sampan.apiserver.aggregation.remote_api import ClientFiles, RemoteApi, download_openapi
from sampan.apiserver.aggregation.remote_groups import RemoteGroups, RemoteGroupVersion
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.proxy.proxied import list_slices
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.patches import MERGE_PATCH
from sampan.machinery import errors
from sampan.machinery.telemetry.metrics import Metrics, Sample
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError
from sampan.storage.cacher.follower import follow_changes

if TYPE_CHECKING:
    from sampan.apiserver.pipeline import Pipeline
    from sampan.apiserver.proxy.upstream import UpstreamClient
    from sampan.apiserver.registry.store import Store

log = logging.getLogger(__name__)

GROUP, VERSION, KIND = "apiregistration.k8s.io", "v1", "APIService"
AVAILABLE = "Available"
_CHECK_S = 30.0
"""The time between two checks of a service that is available."""
_FAILED_CHECK_S = 2.0
"""The time between two checks of a service that is not available."""
_CHECK_TIMEOUT_S = 6.0
_OPENAPI_S = 60.0
"""The time between two reads of the OpenAPI documents of a service."""
_FAILED_OPENAPI_S = (2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""The pauses after the first, second, ... failed read in a row of the OpenAPI documents of a service."""


class AggregationController:
    def __init__(
        self,
        *,
        pipeline: Pipeline,
        upstream: UpstreamClient,
        remotes: RemoteGroups,
        client: ClientFiles | None = None,
        metrics: Metrics,
    ) -> None:
        """`client` is the certificate and key of this server as a front proxy."""
        self._pipeline, self._upstream, self._remotes, self._client = pipeline, upstream, remotes, client
        self._registry = pipeline.endpoints.registry
        self._registrations = LocalRegistrations(pipeline=pipeline)
        metrics.function(
            "aggregator_unavailable_apiservice",
            "Whether an APIService is unavailable (1) or available (0).",
            self._sample_availability,
            ("name",),
        )
        self._failures = metrics.counter(
            "aggregator_unavailable_apiservice_total",
            "How often APIServices became unavailable, by name and reason.",
            ("name", "reason"),
        )

    def renew_client(self) -> None:
        """Reload the client certificate of this server."""
        for versions in self._remotes.remote_versions().values():
            for remote in versions:
                remote.api = self._make_api(remote.service)

    def _make_api(self, service: APIService) -> RemoteApi:
        return RemoteApi(registry=self._registry, upstream=self._upstream, service=service, client=self._client)

    async def wait_registered(self) -> None:
        """Wait until every group version of this server has its APIService."""
        await self._registrations.completed.wait()

    # -- APIServices -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the APIServices until cancelled."""
        store = self._registry.open_store_of(GROUP, VERSION, KIND)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrations.run())
            await follow_changes(store.cacher, "APIServices", lambda: self._sync(store, group))

    async def _sync(self, store: Store, group: asyncio.TaskGroup) -> None:
        services: list[APIService] = [item.object(store.codec.decode) for item in store.cacher.peek_all()]
        remote_services = {
            (service.spec.group, service.spec.version): service
            for service in services
            if service.spec.service is not None
        }
        for key in self._remotes.group_versions() - remote_services.keys():
            self._forget(key)
        for key, service in remote_services.items():
            known_remote = self._remotes.get(key)
            if known_remote is not None and known_remote.is_for(service):
                known_remote.service = service
                continue
            if known_remote is not None:
                self._forget(key)
            remote = RemoteGroupVersion(service, self._make_api(service))
            self._remotes.add(key, remote)
            remote.tasks.append(group.create_task(self._keep_checking(remote)))
            remote.tasks.append(group.create_task(self._keep_openapi(remote)))

    def _forget(self, key: tuple[str, str]) -> None:
        for task in self._remotes.remove(key).tasks:
            task.cancel()

    # -- availability ------------------------------------------------------------------------------------------------

    async def _keep_checking(self, remote: RemoteGroupVersion) -> None:
        while True:
            try:
                condition = await self._check(remote)
                self._use(remote, condition)
                await self._write(remote.service, condition)
            except errors.NotFound:
                return
            except (errors.ApiError, CacheError, StorageError) as error:
                log.warning("cannot check APIService %s: %s", remote.service.metadata.name, error)
            await asyncio.sleep(_CHECK_S if remote.is_available else _FAILED_CHECK_S)

    def _use(self, remote: RemoteGroupVersion, condition: APIServiceCondition) -> None:
        is_available = condition.status == "True"
        if is_available != remote.is_available:
            if is_available:
                remote.available.set()
            else:
                remote.available.clear()
                self._failures.labels(remote.service.metadata.name, condition.reason).inc()
            self._remotes.record_change()

    async def _check(self, remote: RemoteGroupVersion) -> APIServiceCondition:
        reference = remote.service.spec.service
        assert reference is not None
        name, namespace, port = reference.name, reference.namespace, reference.port or 443
        subject = f'service/{name} in "{namespace}"'
        service = await self._find("Service", namespace, name)
        if not isinstance(service, Service):
            return _make_unavailable_condition("ServiceNotFound", f"{subject} is not present")
        if service.spec.type == "ClusterIP":
            row = next((row for row in service.spec.ports if row.port == port), None)
            if row is None:
                return _make_unavailable_condition("ServicePortError", f"{subject} is not listening on port {port}")
            slices = await list_slices(self._registry, namespace, name)
            if not slices:
                return _make_unavailable_condition("EndpointsNotFound", f"cannot find endpointslices for {subject}")
            if not has_ready_endpoint(slices, row.name):
                text = f'endpointslices for {subject} have no addresses with port name "{row.name}"'
                return _make_unavailable_condition("MissingEndpoints", text)
        return await self._discover(remote)

    def _sample_availability(self) -> Iterator[Sample]:
        store = self._registry.open_store_of(GROUP, VERSION, KIND)
        for item in store.cacher.peek_all():
            service: APIService = item.object(store.codec.decode)
            condition = find_condition(service.status.conditions, AVAILABLE)
            if condition is not None:
                yield (service.metadata.name,), float(condition.status != "True")

    async def _discover(self, remote: RemoteGroupVersion) -> APIServiceCondition:
        """Read the discovery document of a service, which proves that it responds."""
        spec = remote.service.spec
        path = f"/apis/{spec.group}/{spec.version}"
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT_S):
                response = await remote.api.get(path, SYSTEM)
            if not 200 <= response.code < 300:
                raise ConnectionError(f"bad status from {path}: {response.code}")
            resources = resource_list(response.body).resources or []
        except (errors.ApiError, OSError, TimeoutError, InvalidDiscovery) as error:
            text = str(error) or "context deadline exceeded"
            return _make_unavailable_condition(
                "FailedDiscoveryCheck", f"failing or missing response from {path}: {text}"
            )
        if resources != remote.resources:
            remote.resources = resources
            self._remotes.record_change()
        return APIServiceCondition(type=AVAILABLE, status="True", reason="Passed", message="all checks passed")

    async def _keep_openapi(self, remote: RemoteGroupVersion) -> None:
        """Keep the OpenAPI documents of a service up to date while it is available."""
        spec, failures = remote.service.spec, 0
        while True:
            await remote.available.wait()
            try:
                remote.openapi = await download_openapi(remote.api, spec.group, spec.version, remote.openapi)
                failures, delay_s = 0, _OPENAPI_S
            except (errors.ApiError, OSError, TimeoutError, InvalidOpenApi) as error:
                delay_s = _FAILED_OPENAPI_S[min(failures, len(_FAILED_OPENAPI_S) - 1)]
                failures += 1
                text = str(error) or "context deadline exceeded"
                log.warning("cannot read the OpenAPI documents of %s: %s", remote.service.metadata.name, text)
            await asyncio.sleep(delay_s)

    async def _find(self, kind: str, namespace: str, name: str) -> object | None:
        store = self._registry.open_store_of("", "v1", kind)
        item = await store.cacher.get(namespace, name)
        return item.object(store.codec.decode) if item is not None else None

    async def _write(self, service: APIService, condition: APIServiceCondition) -> None:
        """Write the condition, unless the APIService has it already."""
        old = find_condition(service.status.conditions, AVAILABLE)
        if old is not None and (old.status, old.reason, old.message) == (
            condition.status,
            condition.reason,
            condition.message,
        ):
            return
        is_same_status = old is not None and old.status == condition.status
        now = times.format_time(self._registry.clock.now())
        condition.lastTransitionTime = old.lastTransitionTime if old is not None and is_same_status else now
        others = [row for row in service.status.conditions if row.type != AVAILABLE]
        body = msgspec.json.encode({"status": {"conditions": [*others, condition]}})
        path = f"/apis/{GROUP}/{VERSION}/apiservices/{service.metadata.name}/status"
        headers = {"Content-Type": MERGE_PATCH, "User-Agent": "kube-aggregator"}
        call = Call(method="PATCH", path=path, query=Query(""), headers=headers, body=body, user=SYSTEM)
        await self._pipeline.serve_as(call)


def _make_unavailable_condition(reason: str, message: str) -> APIServiceCondition:
    return APIServiceCondition(type=AVAILABLE, status="False", reason=reason, message=message)
