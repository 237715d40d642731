"""The ConfigMap extension-apiserver-authentication, which publishes the client CA and the request header settings to
extension API servers. Several API servers merge their settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.apiserver.bootstrap import SYSTEM
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.negotiation import JSON
from sampan.machinery import errors
from sampan.machinery.pki.pem import CERTIFICATE, read_blocks
from sampan.storage.backend import StorageError
from sampan.storage.cacher import CacheError, ObjectSelection, WatchQuery
from sampan.storage.cacher.follower import follow_changes

if TYPE_CHECKING:
    from sampan.apiserver.config.server_config import ServerConfig
    from sampan.apiserver.pipeline import Pipeline

log = logging.getLogger(__name__)

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_CLIENT_CA, _PROXY_CA = "client-ca-file", "requestheader-client-ca-file"


def trust_data(config: ServerConfig) -> dict[str, str]:
    """Return the data that this server contributes to the ConfigMap."""
    data: dict[str, str] = {}
    if config.tls is not None and config.tls.client_ca is not None:
        data[_CLIENT_CA] = config.tls.client_ca.read_text()
    proxy = config.front_proxy
    if proxy is None:
        return data
    lists = {
        "requestheader-username-headers": proxy.username_headers,
        "requestheader-group-headers": proxy.group_headers,
        "requestheader-extra-headers-prefix": proxy.extra_prefixes,
        "requestheader-allowed-names": proxy.allowed_names,
    }
    if proxy.uid_headers:
        lists["requestheader-uid-headers"] = proxy.uid_headers
    data[_PROXY_CA] = proxy.ca.read_text()
    return {**data, **{key: msgspec.json.encode(list(words)).decode() for key, words in lists.items()}}


def merge_data(present: Mapping[str, str], desired: Mapping[str, str]) -> dict[str, str]:
    """Return the present data, extended by everything that is missing."""
    data = dict(present)
    for key, value in desired.items():
        data[key] = _merge_value(key, present[key], value) if present.get(key) else value
    return data


def _merge_value(key: str, present: str, desired: str) -> str:
    if key in (_CLIENT_CA, _PROXY_CA):
        present_certificates = set(_certificates(present))
        missing = [certificate for certificate in _certificates(desired) if certificate not in present_certificates]
        return "\n".join([present.rstrip("\n"), *missing, ""]) if missing else present
    try:
        words = msgspec.json.decode(present, type=list[str])
    except JSON_ERRORS:
        return desired
    more = [word for word in msgspec.json.decode(desired, type=list[str]) if word not in words]
    return msgspec.json.encode([*words, *more]).decode() if more else present


def _certificates(bundle: str) -> list[str]:
    blocks = (block for block in read_blocks(bundle.encode()) if block.type == CERTIFICATE)
    return [block.encode().decode().rstrip("\n") for block in blocks]


class ClusterAuthenticationTrust:
    def __init__(self, *, pipeline: Pipeline, data: Mapping[str, str]) -> None:
        self._pipeline, self._data = pipeline, data

    async def ensure(self) -> None:
        if not self._data:
            return
        store = self._pipeline.endpoints.registry.open_store_of("", "v1", "ConfigMap")
        item = await store.cacher.get(NAMESPACE, NAME)
        present = item.object(store.codec.decode) if item is not None else None
        data = merge_data(present.data if present is not None else {}, self._data)
        body: dict[str, Any] = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data}
        try:
            if present is None:
                await self._send("POST", _PATH, body)
            elif data != present.data:
                body["metadata"]["resourceVersion"] = present.metadata.resourceVersion
                await self._send("PUT", f"{_PATH}/{NAME}", body)
        except (errors.AlreadyExists, errors.Conflict):
            log.debug("ConfigMap %s was updated by another API server at the same time", NAME)

    async def replace(self, data: Mapping[str, str]) -> None:
        """Publish `data` instead of the previous data from now on. Entries that are in the ConfigMap already are kept,
        since clients may still depend on them."""
        self._data = data
        try:
            await self.ensure()
        except (CacheError, StorageError, errors.ApiError) as error:
            log.warning("cannot publish the authentication CA in ConfigMap %s: %s", NAME, error)

    async def run(self) -> None:
        """Restore the ConfigMap when it is changed, until cancelled."""
        store = self._pipeline.endpoints.registry.open_store_of("", "v1", "ConfigMap")
        query = WatchQuery(selection=ObjectSelection(namespace=NAMESPACE, name=NAME))
        if self._data:
            await follow_changes(store.cacher, f"ConfigMap {NAME}", self.ensure, query)

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        headers = {"Content-Type": JSON, "User-Agent": "sampan-apiserver"}
        content = msgspec.json.encode(body)
        call = Call(method=method, path=path, query=Query(""), headers=headers, body=content, user=SYSTEM)
        await self._pipeline.serve_as(call)
