"""Subresources of a pod that lead to its node: log, exec, attach, portforward, and proxy to the pod itself.

What can be said without the node is decided here: which container is meant, whether the options make sense, whether
there is a node at all.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from sampan.api import times
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import Pod
from sampan.apiserver import listing
from sampan.apiserver.registry.podspec.everywhere import containers_of
from sampan.apiserver.registry.podspec.formats import NEGATIVE
from sampan.apiserver.results import Answer, BytesAnswer
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.call import Call, Query
    from sampan.apiserver.endpoints import Endpoints


async def read_log(endpoints: Endpoints, call: Call) -> Answer:
    """The log of a pod that has no node yet is empty."""
    if faults := _log_faults(call.query):
        raise errors.invalid("PodLogOptions", call.name, faults)
    pod = await _pod(endpoints, call.namespace, call.name)
    _container(pod, call.query.get("container"))
    if not pod.spec.nodeName:
        return BytesAnswer(b"", code=204)
    return await _to_node(endpoints, pod)


async def connect(endpoints: Endpoints, call: Call) -> Answer:
    pod = await _pod(endpoints, call.namespace, call.name)
    if call.subresource != "portforward":
        _container(pod, call.query.get("container"))
    if not pod.spec.nodeName:
        raise errors.bad_request(f"pod {call.name} does not have a host assigned")
    return await _to_node(endpoints, pod)


async def proxy(endpoints: Endpoints, call: Call) -> Answer:
    parts = call.name.split(":")
    if len(parts) > 3 or (len(parts) == 3 and parts[0] not in ("", "http", "https")):
        raise errors.bad_request(f'invalid pod request "{call.name}"')
    pod = await _pod(endpoints, call.namespace, parts[1] if len(parts) == 3 else parts[0])
    address = pod.status.podIPs[0].ip if pod.status.podIPs else ""
    if not _may_be_proxied(address):
        raise errors.bad_request("address not allowed")
    raise errors.service_unavailable(f"pods cannot be reached from this server: {address}")


async def _pod(endpoints: Endpoints, namespace: str, name: str) -> Pod:
    store = endpoints.registry.store_of("", "v1", "Pod")
    item = await store.get(namespace, name)
    pod: Pod = item.object(store.codec.decode)
    return pod


async def _to_node(endpoints: Endpoints, pod: Pod) -> Answer:
    node = pod.spec.nodeName
    nodes = endpoints.registry.store_of("", "v1", "Node")
    if await nodes.cacher.get("", node) is None:
        raise errors.not_found("pods", node)
    raise errors.service_unavailable(f"nodes cannot be reached from this server: {node}")


def _container(pod: Pod, asked: str) -> str:
    """The container that is meant: the one that was asked for, or the only one."""
    known = [container.name for _, container, _ in containers_of(pod.spec)]
    if asked:
        if asked not in known:
            raise errors.bad_request(f"container {asked} is not valid for pod {pod.metadata.name}")
        return asked
    plain = pod.spec.containers or []
    if len(plain) == 1:
        return plain[0].name
    text = f"a container name must be specified for pod {pod.metadata.name}"
    raise errors.bad_request(f"{text}, choose one of: [{' '.join(known)}]" if plain else text)


def _may_be_proxied(address: str) -> bool:
    """Whether it is the address of one host that others can reach."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local)


def _log_faults(query: Query) -> list[FieldError]:
    tail, limit, since = (_number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    has_time = _check_time(query.get("sinceTime"))
    faults = []
    if tail is not None and tail < 0:
        faults.append(FieldError.invalid("tailLines", tail, NEGATIVE))
    if limit is not None and limit < 1:
        faults.append(FieldError.invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and has_time:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        faults.append(FieldError.forbidden("[]", text))
    elif since is not None and since < 1:
        faults.append(FieldError.invalid("sinceSeconds", since, "must be greater than 0"))
    if "stream" in query:
        faults.append(FieldError.forbidden("stream", "may not be specified"))
    return faults


def _number(query: Query, name: str) -> int | None:
    return listing.number(query.get(name)) if query.get(name) else None


def _check_time(text: str) -> bool:
    if not text:
        return False
    try:
        times.parse_time(text)
    except times.TimeError as fault:
        raise errors.bad_request(str(fault)) from None
    return True
