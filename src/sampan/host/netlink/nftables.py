"""Transactions and dumps of nf_tables, as in libnftnl.

The program `nft` reads all chains of the machine before it changes one, which takes 60 ms of CPU with 10,000 services.
It also lets the kernel number each anonymous map, which takes quadratic time. Sending the messages directly avoids
both.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import NETFILTER_HEADER, NetlinkMessage, error_code, read_attributes
from sampan.host.netlink.netlink_socket import NetlinkSocket

_SEND_BUFFER, _RECEIVE_BUFFER = 64 << 20, 8 << 20
_BATCH_HEADER = NETFILTER_HEADER.pack(0, 0, nl.NFNL_SUBSYS_NFTABLES)
_BATCH_BEGIN = NetlinkMessage(nl.NFNL_MSG_BATCH_BEGIN, _BATCH_HEADER)
_BATCH_END = NetlinkMessage(nl.NFNL_MSG_BATCH_END, _BATCH_HEADER)


class TransactionFailed(Exception):
    """The kernel refused a transaction and changed nothing."""

    def __init__(self, errors: Mapping[int, int]) -> None:
        """`errors` are error numbers by the index of the message; the index -1 is the transaction as a whole."""
        self.errors = errors
        first, code = next(iter(errors.items()))
        subject = f"message {first}" if first >= 0 else "the transaction"
        super().__init__(f"nf_tables refused {subject}: {os.strerror(code)}")


class NftSocket:
    """A socket for the tables of one family. The types of messages are NFT_MSG_*. For use by one thread."""

    def __init__(self, family: int) -> None:
        self._header = NETFILTER_HEADER.pack(family, 0, 0)
        self._socket = _TransactionSocket(
            nl.NETLINK_NETFILTER, send_buffer_bytes=_SEND_BUFFER, receive_buffer_bytes=_RECEIVE_BUFFER
        )

    def close(self) -> None:
        self._socket.close()

    def commit(self, messages: Sequence[NetlinkMessage]) -> None:
        """Execute the commands as one transaction, or raise an error with the commands that the kernel refused."""
        if not messages:
            return
        last = len(messages) - 1
        batch = [_BATCH_BEGIN]
        for index, (type, body, flags) in enumerate(messages):
            flags |= nl.NLM_F_ACK if index == last else 0
            batch.append(NetlinkMessage(_type(type), self._header + body, flags))
        batch.append(_BATCH_END)
        if errors := self._socket.exchange(batch):
            raise TransactionFailed(errors)

    def dump(self, type: int, body: bytes = b"") -> Iterator[dict[int, bytes]]:
        """Return the attributes of all objects of a kind in the tables of this family."""
        for content in self._socket.dump(_type(type), self._header + body):
            yield read_attributes(content[NETFILTER_HEADER.size :])

    def get(self, type: int, body: bytes = b"") -> dict[int, bytes] | None:
        """Return the attributes of an object, or None if it does not exist."""
        try:
            content = self._socket.get(_type(type), self._header + body)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return read_attributes(content[NETFILTER_HEADER.size :])


class _TransactionSocket(NetlinkSocket):
    def exchange(self, batch: Sequence[NetlinkMessage]) -> dict[int, int]:
        """Send the begin, the messages and the end of a transaction, and return the errors by the index of the
        message."""
        first, last = self._sequence + 1, self._sequence + len(batch) - 1
        self._transmit(batch)
        errors: dict[int, int] = {}
        while True:
            for message in self._receive():
                sequence = message.sequence
                if message.type != nl.NLMSG_ERROR or not first <= sequence <= last:
                    continue
                if code := error_code(message.body):
                    errors[sequence - first - 1] = code
                if sequence in (first, last):
                    return errors


def _type(message: int) -> int:
    return nl.NFNL_SUBSYS_NFTABLES << 8 | message
