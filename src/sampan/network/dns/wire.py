"""The DNS wire format (RFC 1035, RFC 6891), as far as the server reads and writes it without a library.

Names are in wire format (a length byte before each label, a zero byte at the end) and lower-cased wherever they are
keys: lower-casing the bytes of a name leaves its length bytes alone, since they are below 64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

A, NS, CNAME, SOA, PTR, HINFO, TXT, AAAA, SRV, OPT, IXFR, AXFR, ANY = 1, 2, 5, 6, 12, 13, 16, 28, 33, 41, 251, 252, 255
TYPE_NAMES = {
    A: "A",
    NS: "NS",
    CNAME: "CNAME",
    SOA: "SOA",
    PTR: "PTR",
    HINFO: "HINFO",
    15: "MX",
    TXT: "TXT",
    AAAA: "AAAA",
    SRV: "SRV",
    43: "DS",
    48: "DNSKEY",
    65: "HTTPS",
    ANY: "ANY",
}
"""The types that metrics tell apart; all others are counted as `other`, as CoreDNS does."""

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16
RCODE_NAMES = {
    NOERROR: "NOERROR",
    FORMERR: "FORMERR",
    SERVFAIL: "SERVFAIL",
    NXDOMAIN: "NXDOMAIN",
    NOTIMP: "NOTIMP",
    REFUSED: "REFUSED",
    BADVERS: "BADVERS",
}

QR, AA, TC, RD, RA, AD, CD, DO = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0020, 0x0010, 0x8000
HEADER_SIZE = 12
MIN_UDP_SIZE, EDNS_UDP_SIZE, MAX_MESSAGE_SIZE = 512, 1232, 65535
"""The UDP payload without EDNS, the largest that avoids fragments, and the largest message over TCP."""

IN = b"\0\1"
_QUESTION_POINTER = b"\xc0\x0c"
_MAX_NAME_SIZE, _MAX_LABEL_SIZE = 255, 63
_MAX_EXTRA_RECORDS = 64
"""The number of records in a query's additional section that are read before the query counts as malformed."""


class MalformedMessage(Exception):
    """A message that does not follow the format."""


# -- names -----------------------------------------------------------------------------------------------------------


def name_bytes(text: str) -> bytes:
    """Encode a name such as `kubernetes.default.svc.cluster.local` in wire format, lower-cased."""
    return labels_bytes(label.encode() for label in text.lower().rstrip(".").split(".") if label)


def labels_bytes(labels: Iterable[bytes]) -> bytes:
    labels = tuple(labels)
    if sum(map(len, labels)) + len(labels) >= _MAX_NAME_SIZE or max(map(len, labels), default=0) > _MAX_LABEL_SIZE:
        raise MalformedMessage("a name is longer than 255 bytes or has a label of more than 63")
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def labels_of(name: bytes) -> list[bytes]:
    """Return the labels of a well-formed name in wire format."""
    labels, position = [], 0
    while length := name[position]:
        labels.append(name[position + 1 : position + 1 + length])
        position += 1 + length
    return labels


def parents_of(name: bytes, zone: bytes) -> list[bytes]:
    """Return the names between a name and the zone that contains it, excluding both."""
    parents, position = [], 1 + name[0]
    while len(name) - position > len(zone):
        parents.append(name[position:])
        position += 1 + name[position]
    return parents


def is_within(name: bytes, zone: bytes) -> bool:
    """Whether the name is the zone or below it. Both are well-formed and lower-cased."""
    if not name.endswith(zone):
        return False
    position, start = 0, len(name) - len(zone)
    while position < start:
        position += 1 + name[position]
    return position == start


def name_end(message: bytes, position: int) -> int:
    """Return the position after the name that starts at `position`, whether or not it ends in a pointer."""
    size = len(message)
    while position < size:
        length = message[position]
        if length == 0:
            return position + 1
        if length >= 0xC0:
            return position + 2
        if length > _MAX_LABEL_SIZE:
            break
        position += 1 + length
    raise MalformedMessage("a name is cut off or has a reserved label type")


# -- records ---------------------------------------------------------------------------------------------------------


def record(type: int, ttl_s: int, data: bytes, owner: bytes = _QUESTION_POINTER) -> bytes:
    """Encode a record. Without an owner it belongs to the name in the question, in whatever case that was sent."""
    return owner + struct.pack("!HHIH", type, 1, ttl_s, len(data)) + data


def srv_data(port: int, target: bytes) -> bytes:
    """Encode the data of a SRV record. All targets have the same priority and weight."""
    return struct.pack("!HHH", 0, 100, port) + target


def soa_data(*, name_server: bytes, mailbox: bytes, serial: int, negative_ttl_s: int) -> bytes:
    return name_server + mailbox + struct.pack("!IIIII", serial, 7200, 1800, 86400, negative_ttl_s)


def txt_data(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


_MAX_RECORDS = 8192
"""The largest number of records in a section: the longest response has room for 4,096 addresses, and the header has 16
bits for the number."""


class RecordSet:
    """Ready-made sections of a response: everything after the question, without OPT.

    `counts` are the numbers of records in the answer, authority and additional sections. If `record_size` is not zero,
    all records are answers of that size, and each use starts with the next record, so that clients that take the first
    address are spread over all of them.
    """

    __slots__ = ("body", "counts", "counts_with_opt", "record_size", "start")

    def __init__(self, *, answer_records: Iterable[bytes], additional: Iterable[bytes] = ()) -> None:
        answer_records = tuple(islice(answer_records, _MAX_RECORDS))
        additional = tuple(islice(additional, _MAX_RECORDS))
        self.body = b"".join((*answer_records, *additional))
        self.counts = struct.pack("!HHH", len(answer_records), 0, len(additional))
        self.counts_with_opt = struct.pack("!HHH", len(answer_records), 0, len(additional) + 1)
        sizes = set(map(len, answer_records))
        is_rotated = len(answer_records) > 1 and len(sizes) == 1 and not additional
        self.record_size = sizes.pop() if is_rotated else 0
        self.start = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordSet) and self.counts == other.counts and self.body == other.body

    def __hash__(self) -> int:
        return hash(self.body)

    def next_body(self) -> bytes:
        """Return the records, each time starting with the next one."""
        if not self.record_size:
            return self.body
        self.start = start = (self.start + self.record_size) % len(self.body)
        return self.body[start:] + self.body[:start]


# -- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsQuery:
    """A query with one question."""

    id: bytes
    flags: int
    question: bytes
    """The question as it was sent, which the response repeats."""
    name: bytes
    """The lower-cased name in wire format."""
    type: int
    qclass: int
    udp_size: int = 0
    """The size of responses that the client accepts with EDNS; 0 if the query has no OPT record."""
    edns_version: int = 0
    is_dnssec_ok: bool = False

    @property
    def key(self) -> bytes:
        return self.name + self.question[-4:]

    @property
    def opt(self) -> bytes:
        """The OPT record of the response; empty if the query has none."""
        return opt_record(is_dnssec_ok=self.is_dnssec_ok) if self.udp_size else b""


def opt_record(*, is_dnssec_ok: bool = False, rcode: int = NOERROR) -> bytes:
    return struct.pack("!BHHBBHH", 0, OPT, EDNS_UDP_SIZE, rcode >> 4, 0, DO if is_dnssec_ok else 0, 0)


def parse_query(message: bytes) -> DnsQuery:
    """Parse a query with one question and no other records than additional ones. Raise MalformedMessage for any other
    message."""
    identifier, flags, questions, answer_count, authorities, extras = struct.unpack_from("!2sHHHHH", message)
    if questions != 1 or answer_count or authorities or extras > _MAX_EXTRA_RECORDS:
        raise MalformedMessage("not one question, or records in the answer or authority section")
    end = plain_name_end(message, HEADER_SIZE)
    if len(message) < end + 4:
        raise MalformedMessage("the question is cut off")
    type, qclass = struct.unpack_from("!HH", message, end)
    udp_size, version, dnssec_ok = _edns(message, end + 4, extras)
    return DnsQuery(
        id=identifier,
        flags=flags,
        question=message[HEADER_SIZE : end + 4],
        name=message[HEADER_SIZE:end].lower(),
        type=type,
        qclass=qclass,
        udp_size=udp_size,
        edns_version=version,
        is_dnssec_ok=dnssec_ok,
    )


def plain_name_end(message: bytes, position: int) -> int:
    """Return the end of a name that may not be compressed, as in a question."""
    start, size = position, len(message)
    while position < size:
        length = message[position]
        if length > _MAX_LABEL_SIZE:
            break
        position += 1 + length
        if length == 0:
            if position - start > _MAX_NAME_SIZE:
                break
            return position
    raise MalformedMessage("the name in the question is malformed")


def _edns(message: bytes, position: int, extras: int) -> tuple[int, int, bool]:
    """Return the UDP size (0 without OPT), the EDNS version and the DO bit."""
    udp_size, version, dnssec_ok = 0, 0, False
    for _ in range(extras):
        owner = position
        position = name_end(message, position)
        if len(message) < position + 10:
            raise MalformedMessage("a record is cut off")
        type, size, _, record_version, bits, length = struct.unpack_from("!HHBBHH", message, position)
        if type == OPT:
            if udp_size or message[owner]:
                raise MalformedMessage("two OPT records, or one that does not belong to the root")
            udp_size, version, dnssec_ok = max(size, MIN_UDP_SIZE), record_version, bool(bits & DO)
        position += 10 + length
    if position != len(message):
        raise MalformedMessage("bytes after the last record, or too few of them")
    return udp_size, version, dnssec_ok


# -- responses -------------------------------------------------------------------------------------------------------


def response(
    query: DnsQuery, *, rcode: int = NOERROR, counts: bytes = bytes(6), body: bytes = b"", flags: int = 0
) -> bytes:
    """Encode a response to a query. `counts` is without the OPT record, which is added if the query has one."""
    flags = QR | RA | flags | (query.flags & (RD | CD)) | (rcode & 15)
    if not query.udp_size:
        return query.id + struct.pack("!HH", flags, 1) + counts + query.question + body
    extras = int.from_bytes(counts[4:], "big") + 1
    opt = opt_record(is_dnssec_ok=query.is_dnssec_ok, rcode=rcode)
    head = query.id + struct.pack("!HH4sH", flags, 1, counts[:4], extras)
    return head + query.question + body + opt


def error_response(message: bytes, rcode: int) -> bytes:
    """Encode a response to a message that could not be parsed: only a header."""
    opcode_and_rd = message[2] & 0x79
    return message[:2] + bytes((0x80 | opcode_and_rd, rcode)) + bytes(8)


def truncate_response(message: bytes, size: int) -> bytes:
    """Cut a response to at most `size` bytes.

    Whole records are left out from the end, except OPT. TC is set if a record of the answer or authority section is
    missing; records of the additional section are optional. Clients without TCP at least get the first addresses.
    """
    if len(message) <= size:
        return message
    flags, questions, *counts = struct.unpack_from("!HHHHH", message, 2)
    position = HEADER_SIZE
    for _ in range(questions):
        position = name_end(message, position) + 4
    opt = message[-11:] if counts[2] and message[-11:-8] == b"\0\0\x29" and message[-2:] == b"\0\0" else b""
    remaining_counts, is_full = [0, 0, 0], False
    for section, count in enumerate(counts):
        for _ in range(count - 1 if opt and section == 2 else count):
            end = record_end(message, position)
            if is_full or end + len(opt) > size:
                is_full = True
                break
            position, remaining_counts[section] = end, remaining_counts[section] + 1
    if remaining_counts[0] < counts[0] or remaining_counts[1] < counts[1]:
        flags |= TC
    head = message[:2] + struct.pack(
        "!HHHHH", flags, questions, remaining_counts[0], remaining_counts[1], remaining_counts[2] + bool(opt)
    )
    return head + message[HEADER_SIZE:position] + opt


def record_end(message: bytes, position: int) -> int:
    """Return the position after the record that starts at `position`."""
    position = name_end(message, position)
    if len(message) < position + 10:
        raise MalformedMessage("a record is cut off")
    end = position + 10 + int.from_bytes(message[position + 8 : position + 10], "big")
    if end > len(message):
        raise MalformedMessage("a record is cut off")
    return end
