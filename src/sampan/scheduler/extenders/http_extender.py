"""Requests to one extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.extenders import messages
from sampan.scheduler.extenders.extender_config import ExtenderConfig
from sampan.scheduler.extenders.tls import context_of
from sampan.scheduler.pod_info import PodInfo

if TYPE_CHECKING:
    from sampan.machinery.http_session import HttpSession


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

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod requests or limits a resource that the extender manages."""
        managed = self.config.managed_resources
        if not managed:
            return True
        containers = (*(pod.spec.containers or ()), *pod.spec.initContainers)
        amounts = (container.resources for container in containers)
        return any(not managed.isdisjoint((*requirements.requests, *requirements.limits)) for requirements in amounts)

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> messages.FilterResult:
        names_only = self.config.is_node_cache_capable
        body = messages.node_args(pod, nodes, names_only=names_only)
        read = partial(messages.filter_result, names_only=names_only)
        result: messages.FilterResult = self._read(read, await self._post(self.config.filter_verb, body))
        if result.error:
            raise ExtenderError(result.error)
        known = {node.metadata.name for node in nodes}
        for name in result.nodes or ():
            if name not in known:
                message = (
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
                raise ExtenderError(message)
        return result

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        body = messages.node_args(pod, nodes, names_only=self.config.is_node_cache_capable)
        scores: dict[str, int] = self._read(messages.priorities, await self._post(self.config.prioritize_verb, body))
        return scores

    async def preempt(
        self, pod: Pod, victims: Mapping[str, tuple[Sequence[PodInfo], int]]
    ) -> dict[str, messages.Victims]:
        body = messages.preemption_args(pod, victims, names_only=self.config.is_node_cache_capable)
        answer = await self._post(self.config.preempt_verb, body)
        chosen: dict[str, messages.Victims] = self._read(messages.preemption_result, answer)
        return chosen

    async def bind(self, pod: Pod, node: str) -> None:
        answer = await self._post(self.config.bind_verb, messages.binding_args(pod, node))
        if error := self._read(messages.binding_error, answer):
            raise ExtenderError(error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, verb: str, body: bytes) -> Any:
        import aiohttp  # imported only if there are extenders

        url = f"{self.name.rstrip('/')}/{verb}"
        try:
            async with self._opened().post(
                url, data=body, headers={"Content-Type": "application/json"}, server_hostname=self._server_name
            ) as answer:
                if answer.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {answer.status}")
                return msgspec.json.decode(await answer.read() or b"null")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {error or "context deadline exceeded"}') from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise ExtenderError(f"extender at URL {url}: {error}") from error

    def _read(self, read: Any, answer: Any) -> Any:
        try:
            return read(answer)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ExtenderError(f"extender at URL {self.name}: {error}") from error

    def _opened(self) -> HttpSession:
        import aiohttp

        from sampan.machinery.http_session import HttpSession

        if self._session is None:
            tls = self.config.tls
            context = context_of(self.config.url_prefix, tls) if tls is not None else True
            self._session = HttpSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=self.config.timeout_s),
            )
        return self._session
