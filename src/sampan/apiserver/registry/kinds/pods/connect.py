"""The log, exec, attach and portforward subresources of pods, which are proxied to the kubelet.

The container name, the options and the existence of the node are checked before the request is forwarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sampan.api.field_errors import FieldError
from sampan.api.semantics.pods import all_containers
from sampan.api.types.core_v1 import Pod, PodAttachOptions, PodExecOptions, PodPortForwardOptions
from sampan.api.values import times
from sampan.apiserver.proxy import logs
from sampan.apiserver.registry.validation import NEGATIVE
from sampan.apiserver.request import options
from sampan.apiserver.response.responses import ApiResponse, RawResponse, StreamedResponse
from sampan.host.http import HttpRequest, StreamResponse
from sampan.machinery import errors
from sampan.machinery.multiplex import handshake

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.proxy.upstream import UpstreamClient
    from sampan.apiserver.request.call import Call, Query


async def read_log(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    """Stream the log of a container; empty for a pod without a node."""
    if field_errors := _validate_log_options(call.query):
        raise errors.invalid("PodLogOptions", call.name, field_errors)
    pod = await _pod(endpoints, call.namespace, call.name)
    container = _container(pod, call.query.get("container"))
    if not pod.spec.nodeName:
        return RawResponse(b"", content_type="", code=204)
    upstream = await _find_upstream(endpoints, pod)
    return StreamedResponse(lambda request: logs.serve(request, upstream, pod, container, log_query(call.query)))


async def connect(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    await endpoints.authorize_create(call)
    await endpoints.admit_connection(call, connect_options(call))
    pod = await _pod(endpoints, call.namespace, call.name)
    path = [call.namespace, call.name]
    if call.subresource != "portforward":
        path.append(_container(pod, call.query.get("container")))
    if not pod.spec.nodeName:
        raise errors.bad_request(f"pod {call.name} does not have a host assigned")
    upstream = await _find_upstream(endpoints, pod)
    target = f"/{_KUBELET_PATHS[call.subresource]}/{'/'.join(path)}"
    if query := urlencode(stream_query(call)):
        target = f"{target}?{query}"

    async def serve(request: HttpRequest) -> StreamResponse | None:
        if not handshake.is_upgrade(request.values):
            raise errors.bad_request("Upgrade request required")
        return await upstream.forward_to_kubelet(request, pod.spec.nodeName, target)

    return StreamedResponse(serve)


def connect_options(call: Call) -> PodExecOptions | PodAttachOptions | PodPortForwardOptions:
    """Return the options of a connection, which admission sees as its object."""
    query = call.query
    if call.subresource == "portforward":
        return PodPortForwardOptions(ports=[int(port) for port in parse_forwarded_ports(query)])
    options: PodAttachOptions | PodExecOptions = PodAttachOptions()
    if call.subresource == "exec":
        options = PodExecOptions(command=query.get_all("command"))
    options.container = query.get("container")
    options.stdin, options.stdout = query.flag("stdin"), query.flag("stdout")
    options.stderr, options.tty = query.flag("stderr"), query.flag("tty")
    return options


def parse_forwarded_ports(query: Query) -> list[str]:
    """Return the ports of a port-forward request. Raise BadRequest for one that is no number."""
    ports = [port for value in query.get_all("ports") for port in value.split(",")]
    for port in ports:
        if not (port.isascii() and port.isdecimal()):
            raise errors.bad_request(f'strconv.ParseInt: parsing "{port}": invalid syntax')
    return ports


_KUBELET_PATHS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}


def stream_query(call: Call) -> list[tuple[str, str]]:
    """Return the query for the kubelet, which names the options differently."""
    query = call.query
    if call.subresource == "portforward":
        ports = parse_forwarded_ports(query)
        return [("port", ",".join(ports))] if ports else []
    names = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
    pairs = [(parameter, "1") for option, parameter in names.items() if query.flag(option)]
    return pairs + [("command", word) for word in query.get_all("command") if call.subresource == "exec"]


def log_query(query: Query) -> dict[str, str]:
    parameters = {name: "true" for name in ("follow", "previous", "timestamps") if query.flag(name)}
    names = ("sinceSeconds", "sinceTime", "tailLines", "limitBytes")
    return parameters | {name: query.get(name) for name in names if query.get(name)}


async def _pod(endpoints: ApiEndpoints, namespace: str, name: str) -> Pod:
    store = endpoints.registry.open_store_of("", "v1", "Pod")
    item = await store.get(namespace, name)
    pod: Pod = item.object(store.codec.decode)
    return pod


async def _find_upstream(endpoints: ApiEndpoints, pod: Pod) -> UpstreamClient:
    node = pod.spec.nodeName
    nodes = endpoints.registry.open_store_of("", "v1", "Node")
    if await nodes.cacher.get("", node) is None:
        raise errors.not_found("pods", node)
    if endpoints.upstream is None:
        raise errors.service_unavailable(f"nodes cannot be reached from this server: {node}")
    return endpoints.upstream


def _container(pod: Pod, requested: str) -> str:
    """Return the requested container, or the only one. Raise BadRequest if it is missing or ambiguous."""
    container_names = [container.name for container in all_containers(pod.spec)]
    if requested:
        if requested not in container_names:
            raise errors.bad_request(f"container {requested} is not valid for pod {pod.metadata.name}")
        return requested
    plain = pod.spec.containers or []
    if len(plain) == 1:
        return plain[0].name
    text = f"a container name must be specified for pod {pod.metadata.name}"
    raise errors.bad_request(f"{text}, choose one of: [{' '.join(container_names)}]" if plain else text)


def _validate_log_options(query: Query) -> list[FieldError]:
    tail, limit, since = (options.int_parameter(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    has_time = _check_time(query.get("sinceTime"))
    field_errors = []
    if tail is not None and tail < 0:
        field_errors.append(FieldError.invalid("tailLines", tail, NEGATIVE))
    if limit is not None and limit < 1:
        field_errors.append(FieldError.invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and has_time:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        field_errors.append(FieldError.forbidden("[]", text))
    elif since is not None and since < 1:
        field_errors.append(FieldError.invalid("sinceSeconds", since, "must be greater than 0"))
    if "stream" in query:
        field_errors.append(FieldError.forbidden("stream", "may not be specified"))
    return field_errors


def _check_time(text: str) -> bool:
    if not text:
        return False
    try:
        times.parse_time(text)
    except times.TimeError as error:
        raise errors.bad_request(str(error)) from None
    return True
