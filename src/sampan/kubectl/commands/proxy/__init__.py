"""`kubectl proxy`: serve the API of the cluster on a local port, with the credentials of the kubeconfig."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, duration_flag, int_flag, string_flag
from sampan.kubectl.errors import KubectlError

if TYPE_CHECKING:
    import socket

_DEFAULT_PORT = 8001
_ACCEPTED_HOSTS = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$"
_REJECTED_PATHS = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    words: tuple[str, ...] = arguments()
    www: str = string_flag("-w", "--www", metavar="DIR", help="Directory with static files to serve as well.")
    www_prefix: str = string_flag(
        "-P",
        "--www-prefix",
        default="/static/",
        metavar="PATH",
        help="URL path under which the static files are served.",
    )
    api_prefix: str = string_flag(
        "--api-prefix", default="/", metavar="PATH", help="URL path under which the API is served."
    )
    accept_paths: str = string_flag(
        "--accept-paths",
        default="^.*",
        metavar="RE",
        help="Regular expressions of the paths that are accepted, separated by commas.",
    )
    reject_paths: str = string_flag(
        "--reject-paths",
        default=_REJECTED_PATHS,
        metavar="RE",
        help="Regular expressions of the paths that are rejected, separated by commas.",
    )
    accept_hosts: str = string_flag(
        "--accept-hosts", default=_ACCEPTED_HOSTS, metavar="RE", help="Patterns of accepted host names."
    )
    reject_methods: str = string_flag(
        "--reject-methods", default="^$", metavar="RE", help="Patterns of rejected methods."
    )
    port: int = int_flag("-p", "--port", default=_DEFAULT_PORT, help="Port to listen on; 0 picks a free one.")
    address: str = string_flag("--address", default="127.0.0.1", metavar="IP", help="Address to listen on.")
    disable_filter: bool = bool_flag(
        "--disable-filter", help="Accept all requests. Dangerous on a port others can reach."
    )
    unix_socket: str = string_flag(
        "-u", "--unix-socket", metavar="PATH", help="Unix socket to listen on instead of a port."
    )
    keepalive: float = duration_flag(
        "--keepalive", default_s=0.0, metavar="T", help="Interval of TCP keep-alive probes."
    )
    append_server_path: bool = bool_flag(
        "--append-server-path", help="Append paths of requests to the path of the server's URL."
    )


@KubectlCommand.define("proxy", ProxyOptions)
def command(factory: Factory, options: ProxyOptions) -> None:
    """Serve the API of the cluster on a local address.

    The proxy adds the credentials of the kubeconfig, so everybody who can reach it has these rights. By default it
    accepts only requests for this machine, and neither exec nor attach.
    """
    import asyncio

    from sampan.kubectl.commands.proxy.api_proxy import ApiProxy, RequestFilter

    path = factory.session.target("").rstrip("/")
    if path and not options.append_server_path:
        _warn(
            f"Your kube context contains a server path {path}, use --append-server-path to automatically append the "
            "path to each request"
        )
    request_filter = None
    if options.disable_filter:
        if not options.unix_socket:
            _warn("Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious")
    else:
        if not options.reject_paths or not options.reject_methods:
            _warn("Request filter has been relaxed, your proxy may be vulnerable to attacks, please be cautious")
        request_filter = RequestFilter(
            accepted_paths=options.accept_paths,
            rejected_paths=options.reject_paths,
            accepted_hosts=options.accept_hosts,
            rejected_methods=options.reject_methods,
        )
    if options.port != _DEFAULT_PORT and options.unix_socket:
        raise KubectlError("cannot set --unix-socket and --port at the same time")
    directory = options.www
    if directory and not Path(directory).is_dir():
        _warn(f"Static file directory {directory} is not a directory")
    proxy = ApiProxy(
        session=factory.session,
        request_filter=request_filter,
        api_prefix=_with_slash(options.api_prefix),
        static_prefix=_with_slash(options.www_prefix),
        static_directory=Path(directory) if directory else None,
        appends_server_path=options.append_server_path,
        keepalive_s=options.keepalive,
    )
    if options.unix_socket:
        listener = _listen_unix(options.unix_socket)
        address = options.unix_socket
    else:
        listener = _listen(options.address, options.port)
        host, port = listener.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    click.echo(f"Starting to serve on {address}")
    asyncio.run(proxy.serve(listener))


def _with_slash(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _listen(address: str, port: int) -> socket.socket:
    import socket

    if not 0 <= port <= 65535:
        raise KubectlError(f"listen tcp: address {port}: invalid port")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address.strip("[]"), port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubectlError(f"listen tcp {address}:{port}: bind: {reason}") from None
    return listener


def _listen_unix(path: str) -> socket.socket:
    """Listen on a Unix socket that only this user can open. A socket that exists is replaced, another file is not."""
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o077)
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)
    except OSError:
        pass
    try:
        listener.bind(path)
        listener.listen(128)
    except OSError as error:
        raise KubectlError(f"listen unix {path}: bind: {(error.strerror or str(error)).lower()}") from None
    finally:
        os.umask(mask)
    return listener
