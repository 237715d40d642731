"""What the overview shows of the store and of the network, read with the rights of the person. What the cluster lacks
or the person may not read is absent."""

from __future__ import annotations

from typing import Any

from sampan.dashboard.views.api_reader import ApiReader
from sampan.diagnosis.cluster_reader import Object
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed

_STORE = "/debug/store-status"
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
_DNS = "/api/v1/namespaces/kube-system/services/kube-dns"
_STORE_FIELDS = ("kind", "sizeBytes", "objects", "objectBytes", "watchers", "revision", "writeFailure", "largest")


async def read_store(reader: ApiReader) -> dict[str, Any] | None:
    status = await _read(reader, _STORE)
    return {name: status[name] for name in _STORE_FIELDS if name in status} if status is not None else None


async def read_network(reader: ApiReader) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if (cidrs := await _read(reader, _SERVICE_CIDRS)) is not None:
        facts["serviceCidrs"] = [cidr for item in cidrs.get("items") or () for cidr in item["spec"].get("cidrs") or ()]
    if (service := await _read(reader, _DNS)) is not None:
        facts["dns"] = [address for address in (service["spec"].get("clusterIPs") or ()) if address != "None"]
    return facts


async def _read(reader: ApiReader, path: str) -> Object | None:
    try:
        return await reader.get(path)
    except (errors.ApiError, ConnectionFailed):
        return None
