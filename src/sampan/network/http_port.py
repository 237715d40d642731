"""HTTP ports in the network namespace of a node."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from ipaddress import ip_address

from sampan.host.linux.network_namespace import NetworkNamespace

_BACKLOG = 128


def bind_socket(
    namespace: NetworkNamespace, address: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM
) -> socket.socket:
    """Return a socket that is bound in the namespace.

    An unspecified address of either IP family means all addresses of both, as in Go. Raise OSError if the socket cannot
    be bound.
    """
    families = [socket.AF_INET6 if ":" in address else socket.AF_INET]
    is_unspecified = ip_address(address).is_unspecified
    if is_unspecified:
        families = [socket.AF_INET6, socket.AF_INET]
    for family in families:
        with suppress(_NoFamily):
            host = ("::" if family is socket.AF_INET6 else "0.0.0.0") if is_unspecified else address
            return _bind(namespace, family, kind, host, port, accepts_both=is_unspecified)
    raise OSError(errno.EAFNOSUPPORT, f"the kernel has no support for {address}")


class _NoFamily(Exception):
    """The kernel has no support for the IP family."""


def _bind(
    namespace: NetworkNamespace,
    family: socket.AddressFamily,
    kind: socket.SocketKind,
    address: str,
    port: int,
    *,
    accepts_both: bool,
) -> socket.socket:
    try:
        bound = namespace.socket(family, kind)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            raise _NoFamily from None
        raise
    bound.setblocking(False)
    try:
        if family is socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not accepts_both)
        if kind is socket.SOCK_STREAM:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
        if kind is socket.SOCK_STREAM:
            bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRNOTAVAIL and accepts_both and family is socket.AF_INET6:
            raise _NoFamily from None  # IPv6 is disabled in the namespace
        raise
    return bound
