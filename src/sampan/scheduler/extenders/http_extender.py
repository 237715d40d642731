"""Requests to one extender: JSON with the field names of the Go types, read case-insensitively."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.codec import json
from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.extenders.extender_config import ExtenderConfig, context_of

if TYPE_CHECKING:
    from sampan.machinery.http.session import HttpSession


class FilterResult(msgspec.Struct):
    nodes: list[str] | None = None
    """The names of the feasible nodes; None if the response does not contain any list."""
    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}
    error: str = ""


class ExtenderVictims(msgspec.Struct):
    uids: list[str]
    violations: int


def encode_node_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """Encode ExtenderArgs."""
    listed: Any = None
    names: Any = None
    if names_only:
        names = [node.metadata.name for node in nodes]
    else:
        listed = {"metadata": {}, "items": [msgspec.Raw(json.encode(node)) for node in nodes]}
    return msgspec.json.encode({"Pod": msgspec.Raw(json.encode(pod)), "Nodes": listed, "NodeNames": names})


def encode_preemption_args(
    pod: Pod, victims: Mapping[str, tuple[Sequence[PodInfo], int]], *, names_only: bool
) -> bytes:
    """Encode ExtenderPreemptionArgs from the victims and the number of PDB violations of each node."""
    whole = {node: _victims(infos, count, names_only) for node, (infos, count) in victims.items()}
    return msgspec.json.encode(
        {
            "Pod": msgspec.Raw(json.encode(pod)),
            "NodeNameToVictims": None if names_only else whole,
            "NodeNameToMetaVictims": whole if names_only else None,
        }
    )


def _victims(infos: Iterable[PodInfo], count: int, names_only: bool) -> dict[str, Any]:
    pods: list[Any] = [{"UID": info.uid} if names_only else msgspec.Raw(json.encode(info.pod)) for info in infos]
    return {"Pods": pods, "NumPDBViolations": count}


def encode_binding_args(pod: Pod, node: str) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode({"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node})


def decode_filter_result(value: Any, *, names_only: bool) -> FilterResult:
    """Decode ExtenderFilterResult; node names are read only if the request carried names."""
    fields = _lower_keys(value)
    names, listed = fields.get("nodenames") if names_only else None, fields.get("nodes")
    if names is None and listed is not None:
        names = [item["metadata"]["name"] for item in _lower_keys(listed).get("items") or ()]
    return FilterResult(
        nodes=names,
        failed=fields.get("failednodes") or {},
        unresolvable=fields.get("failedandunresolvablenodes") or {},
        error=fields.get("error") or "",
    )


def decode_priorities(value: Any) -> dict[str, int]:
    """Decode HostPriorityList to scores by node."""
    return {priority["host"]: int(priority.get("score") or 0) for priority in map(_lower_keys, value or ())}


def decode_preemption_result(value: Any) -> dict[str, ExtenderVictims]:
    nodes = _lower_keys(value).get("nodenametometavictims") or {}
    return {node: _read_victims(_lower_keys(victims or {})) for node, victims in nodes.items()}


def _read_victims(fields: Mapping[str, Any]) -> ExtenderVictims:
    uids = [_lower_keys(pod).get("uid", "") for pod in fields.get("pods") or ()]
    return ExtenderVictims(uids=uids, violations=int(fields.get("numpdbviolations") or 0))


def decode_binding_error(value: Any) -> str:
    return str(_lower_keys(value or {}).get("error") or "")


def _lower_keys(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the response is not a JSON object")
    return {key.lower(): item for key, item in value.items()}


class ExtenderError(Exception):
    """An extender is unreachable, sends an invalid response or reports an error."""


class HttpExtender:
    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        self._session: HttpSession | None = None

    @property
    def name(self) -> str:
        return self.config.url_prefix

    @property
    def _server_name(self) -> str | None:
        """The name to verify the server's certificate against, if it differs from the host in the URL."""
        return (self.config.tls.server_name or None) if self.config.tls is not None else None

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod requests or limits a resource that the extender manages."""
        managed = self.config.managed_resources
        if not managed:
            return True
        containers = init_and_main_containers(pod.spec)
        amounts = (container.resources for container in containers)
        return any(not managed.isdisjoint((*requirements.requests, *requirements.limits)) for requirements in amounts)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterResult:
        names_only = self.config.is_node_cache_capable
        body = encode_node_args(pod, nodes, names_only=names_only)
        read = partial(decode_filter_result, names_only=names_only)
        result: FilterResult = self._read(read, await self._post(self.config.filter_verb, body))
        if result.error:
            raise ExtenderError(result.error)
        node_names = {node.metadata.name for node in nodes}
        for name in result.nodes or ():
            if name not in node_names:
                message = (
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
                raise ExtenderError(message)
        return result

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        body = encode_node_args(pod, nodes, names_only=self.config.is_node_cache_capable)
        scores: dict[str, int] = self._read(decode_priorities, await self._post(self.config.prioritize_verb, body))
        return scores

    async def preempt(
        self, pod: Pod, victims: Mapping[str, tuple[Sequence[PodInfo], int]]
    ) -> dict[str, ExtenderVictims]:
        body = encode_preemption_args(pod, victims, names_only=self.config.is_node_cache_capable)
        response = await self._post(self.config.preempt_verb, body)
        chosen: dict[str, ExtenderVictims] = self._read(decode_preemption_result, response)
        return chosen

    async def bind(self, pod: Pod, node: str) -> None:
        response = await self._post(self.config.bind_verb, encode_binding_args(pod, node))
        if error := self._read(decode_binding_error, response):
            raise ExtenderError(error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, verb: str, body: bytes) -> Any:
        import aiohttp  # imported only if there are extenders

        url = f"{self.name.rstrip('/')}/{verb}"
        try:
            async with self._open_session().post(
                url, data=body, headers={"Content-Type": "application/json"}, server_hostname=self._server_name
            ) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return msgspec.json.decode(await response.read() or b"null")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {error or "context deadline exceeded"}') from error
        except JSON_ERRORS as error:
            raise ExtenderError(f"extender at URL {url}: {error}") from error

    def _read(self, read: Any, response: Any) -> Any:
        try:
            return read(response)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ExtenderError(f"extender at URL {self.name}: {error}") from error

    def _open_session(self) -> HttpSession:
        import aiohttp

        from sampan.machinery.http.session import HttpSession

        if self._session is None:
            tls = self.config.tls
            context = context_of(self.config.url_prefix, tls) if tls is not None else True
            self._session = HttpSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=self.config.timeout_s),
            )
        return self._session
