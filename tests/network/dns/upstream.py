"""A fake upstream resolver."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import dns.flags
import dns.message
import dns.rrset

from sampan.network.dns.upstreams import UpstreamAddress

Handler = Callable[[dns.message.Message, str], "dns.message.Message | bytes | None"]
SOA = "ns.example. mail.example. 1 7200 900 1209600 60"


def reply(query: dns.message.Message, *records: str, ttl_s: int = 100) -> dns.message.Message:
    """Return a response with records such as `A 192.0.2.1` for the name of the question."""
    message = dns.message.make_response(query, recursion_available=True)
    for record in records:
        type, _, data = record.partition(" ")
        message.answer.append(dns.rrset.from_text(query.question[0].name, ttl_s, "IN", type, *data.split(" | ")))
    return message


def denial(query: dns.message.Message) -> dns.message.Message:
    message = dns.message.make_response(query, recursion_available=True)
    message.set_rcode(3)
    message.authority.append(dns.rrset.from_text("example.", 100, "IN", "SOA", SOA))
    return message


class FakeUpstream(asyncio.DatagramProtocol):
    """Listens on UDP and TCP on a free port of 127.0.0.1, and sends the responses that the handler returns."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.queries: list[tuple[str, str, int]] = []
        """Protocol, name and source port of each query."""

    async def __aenter__(self) -> FakeUpstream:
        loop = asyncio.get_running_loop()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.address = UpstreamAddress(*listener.getsockname())
        self._server = await asyncio.start_server(self._serve, sock=listener)
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=listener.getsockname())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        self._transport.close()
        await asyncio.sleep(0)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        message = self._response(data, "udp", addr[1])
        if message is not None:
            self._transport.sendto(message, addr)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            size = int.from_bytes(await reader.readexactly(2), "big")
            message = self._response(await reader.readexactly(size), "tcp", writer.get_extra_info("peername")[1])
            if message is not None:
                writer.write(len(message).to_bytes(2, "big") + message)
        writer.close()

    def _response(self, data: bytes, protocol: str, port: int) -> bytes | None:
        query = dns.message.from_wire(data)
        if query.question[0].rdtype.name != "HINFO":
            self.queries.append((protocol, query.question[0].name.to_text(), port))
        message = self.handler(query, protocol)
        if message is None or isinstance(message, bytes):
            return message
        return bytes(message.to_wire(max_size=65535))
