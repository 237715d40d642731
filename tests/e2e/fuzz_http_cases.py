"""Random requests that abuse HTTP and the options of the API: framings, encodings, upgrades, headers, queries,
selectors, patches and binary bodies. They come from a seed, so that every run sends the same ones."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from tests.e2e.fuzz_cases import NAMES, PATCHES, WORDS, Case, End, Fuzzer

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
OBJECT = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}'
TARGETS = (
    *(MAPS, PODS, f"{MAPS}/a", f"{PODS}/a/log", "/apis/apps/v1/deployments", "/version", "/api", "/metrics"),
    *("/api/v1/nodes", f"{PODS}/a/status", "/apis/apps/v1/namespaces/default/deployments/a/scale", "/openapi/v2"),
)
METHODS = (
    *("get", "Get", "GETT", "PROPFIND", "CONNECT", "TRACE", "M-SEARCH", "PURGE", "", "GET\x00", "\u00e9", "X" * 500),
    *("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"),
)
FORMS = (
    "http://x{}",
    "https://evil.example{}",
    "{}#fragment",
    "x{}",
    "*",
    "{}?",
    "{}%",
    "{}%zz",
    "{}%2f..%2f",
    "{};a=b",
)
VERSIONS = ("HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1", "")
CODINGS = ("gzip", "deflate", "br", "zstd", "identity", "compress", "gzip, gzip", "x-gzip", "*", "gzip;q=0", "\u00e9")
FRAMINGS: tuple[Callable[[bytes], bytes], ...] = (
    lambda body: b"%x;name=value\r\n%b\r\n0\r\n\r\n" % (len(body), body),
    lambda body: b'%x;name="\\""\r\n%b\r\n0\r\n\r\n' % (len(body), body),
    lambda body: b"%016X\r\n%b\r\n0000\r\n\r\n" % (len(body), body),
    lambda body: b"%x\r\n%b\r\n0\r\nX-Trailer: x\r\n\r\n" % (len(body), body),
    lambda body: b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n",
    lambda body: b"0\r\n\r\n",
)
"""Unusual but valid chunked encodings."""
BAD_FRAMINGS: tuple[Callable[[bytes], bytes], ...] = (
    lambda body: b"%x\r\n%b\r\n0\r\nContent-Length: 5\r\n\r\n" % (len(body), body),
    lambda body: b"-1\r\n%b\r\n0\r\n\r\n" % body,
    lambda body: b"0x%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
    lambda body: b"FFFFFFFFFFFFFFFFF\r\n%b\r\n0\r\n\r\n" % body,
    lambda body: b"%x\r\n%b0\r\n\r\n" % (len(body), body),
    lambda body: b"%x\n%b\n0\n\n" % (len(body), body),
    lambda body: b"%x \r\n%b\r\n0\r\n\r\n" % (len(body), body),
    lambda body: b"%x\r\n%b\r\n0\r\n%b" % (len(body), body, b"a: b\r\n" * 5_000),
    lambda body: b"%x;%b\r\n%b\r\n0\r\n\r\n" % (len(body), b"x" * 70_000, body),
    lambda body: b"%x\r\n%b" % (len(body) + 1, body),
    lambda body: b"\r\n\r\n",
)
LENGTHS = (
    *("Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 5", "Content-Length: +5", "Content-Length: -5"),
    *("Content-Length: 0x5", "Content-Length: 99999999999999999999", "Content-Length:", "Content-Length: 5\r\n 6"),
    *("Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: x"),
    *("Transfer-Encoding: gzip, chunked", "Transfer-Encoding:\x0bchunked", "Transfer-Encoding : chunked"),
)
HEADERS = (
    *(
        "no colon",
        ": no name",
        "Na me: x",
        "Name\x00: x",
        "X: \x00",
        "X: \u00e9\u4e2d",
        " X: folded",
        "X:",
        "X: " + "a" * 9_000,
    ),
    *("Host: y", "Connection: close, keep-alive, x", "Expect: 100-continue", "Expect: 200-maybe", "Via: 1.1 x"),
    *("Impersonate-User:", "Impersonate-Group: x", "Impersonate-Extra-a: b", "Impersonate-Uid: x", "Impersonate-X: y"),
    *(
        "Authorization: Bearer",
        "Authorization: Bearer " + "a." * 3_000,
        "Authorization: Negotiate x",
        "Authorization: :",
    ),
    *("X-Forwarded-For: 1.2.3.4", "X-Remote-User: admin", "X-Remote-Group: system:masters", "Content-Type: a/b, c/d"),
    *("Accept: " + "application/json," * 500, "Accept-Encoding: " + "gzip," * 500, "If-Match: *", "Range: bytes=9-1"),
    *("Cookie: " + "a=b;" * 2_000, "User-Agent: " + "x" * 3_000, "Traceparent: 00-x-y-01", "Audit-ID: ../../x"),
)
UPGRADES = (
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="},
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "99"},
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x" * 24, "Sec-WebSocket-Version": "13"},
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v9.channel.k8s.io,," + "x," * 200},
    {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"},
    {"Connection": "Upgrade", "Upgrade": "SPDY/9", "X-Stream-Protocol-Version": ""},
    {"Connection": "Upgrade", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQCAAAAAAIAAAAA"},
    {"Connection": "upgrade", "Upgrade": "TLS/1.0, HTTP/1.1"},
    {"Upgrade": "websocket"},
)
UPGRADED = (
    *(f"{PODS}/a/exec?command=ls&stdin=true&tty=x", f"{PODS}/a/attach?stdout=1", f"{PODS}/a/portforward?ports=0"),
    *(f"{PODS}/a/exec", f"{PODS}/a/portforward?ports=99999&ports=x", f"{PODS}/a/log?follow=true", f"{PODS}?watch=1"),
    *("/api/v1/nodes/a/proxy/exec/x", f"{PODS}/a/proxy/x", "/api/v1/namespaces/default/services/http:a:b/proxy/"),
)
SELECTORS = (
    *(",".join(f"k{n}=v" for n in range(300)), "a in (" + ",".join(map(str, range(500))) + ")", "(" * 500, "a," * 500),
    *("!" * 300 + "a", "a in (b", "a notin ()", "a in (b,,c)", "x/y/z=1", "a=\u00e9", "a>b", "a<99999999999999999999"),
    *("a=" + "x" * 64, "/a", "a==b==c", "in in (in)", "notin", " ", "a\x00=b", "A.B/c_d", "a=b,!a,a!=b,a in (b)"),
)
FIELD_SELECTORS = (
    *("metadata.name=" + "\\," * 200, "metadata.name==a,metadata.name!=a", "metadata.name", "=" * 300, "a.b=c"),
    *("spec.nodeName=a,status.phase=x", "metadata.name=\\", "metadata.namespace=..", "spec.unknown=1", "\x00=\x00"),
)
CBOR_PREFIX = b"\xd9\xd9\xf7"


class HttpFuzzer(Fuzzer):
    def _case(self) -> Case:
        families = (
            self._chunked_case,
            self._bad_framing,
            self._encoded_body,
            self._odd_line,
            self._odd_header,
            self._upgrade,
            self._long_query,
            self._list_case,
            self._binary_body,
            self._large_patch,
        )
        case: Case = self._choose(families)()
        return case

    def _build_case(self, method: str, target: str, head: str = "", body: bytes = b"", end: End = End.READS) -> Case:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        data = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{head}{length}\r\n".encode() + body
        return Case(data, end, is_noise=end is not End.READS, method=method)

    # -- HTTP --------------------------------------------------------------------------------------------------------

    def _chunked_case(self) -> Case:
        head = (
            f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        return Case(head.encode() + self._choose(FRAMINGS)(self._maybe_damage(OBJECT)), method="POST")

    def _bad_framing(self) -> Case:
        body = self._maybe_damage(OBJECT)[:5_000]
        head = (
            f"{self._choose(('POST', 'PUT', 'GET'))} {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        )
        if self._random.random() < 0.5:
            data = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + self._choose(BAD_FRAMINGS)(body)
        else:
            data = head.encode() + self._choose(LENGTHS).encode() + b"\r\n\r\n" + body
        return Case(data, self._choose((End.HALF, End.LEAVES)), is_noise=True)

    def _encoded_body(self) -> Case:
        bomb = OBJECT[:-3] + b"x" * self._choose((10, 10, 10, 100_000, 4_000_000)) + OBJECT[-3:]
        body = self._choose(
            (gzip.compress(bomb, 1), zlib.compress(bomb, 1), self._mutate(gzip.compress(OBJECT)), OBJECT, b"")
        )
        head = f"Content-Type: application/json\r\nContent-Encoding: {self._choose(CODINGS)}\r\n"
        return self._build_case("POST", MAPS, head, body, End.HALF)

    def _odd_line(self) -> Case:
        method, target = self._choose(METHODS), self._choose(FORMS).format(self._choose(TARGETS))
        data = f"{method} {target} {self._choose(VERSIONS)}\r\nHost: x\r\n\r\n".encode()
        return Case(data, End.HALF, is_noise=True)

    def _odd_header(self) -> Case:
        lines = [self._choose(HEADERS) for _ in range(self._choose((1, 1, 2, 5)))]
        if self._random.random() < 0.1:
            lines = [f"X-{number}: {self._choose(WORDS[:8])}" for number in range(self._choose((50, 150, 600)))]
        return self._build_case(
            self._choose(("GET", "POST")), self._choose(TARGETS), "\r\n".join(lines) + "\r\n", b"", End.HALF
        )

    def _upgrade(self) -> Case:
        head = "".join(f"{name}: {value}\r\n" for name, value in self._choose(UPGRADES).items())
        after = self._choose(
            (b"", b"\x80\x03\x00\x01" + b"\xff" * 30, b"\x81\xff" + b"\x7f" * 20, b"\x89\x00", b"\x00" * 99)
        )
        case = self._build_case(self._choose(("GET", "POST")), self._choose(UPGRADED), head, b"", End.HALF)
        return Case(case.data + after, End.HALF, is_noise=True)

    # -- options of the API ------------------------------------------------------------------------------------------

    def _long_query(self) -> Case:
        query = self._choose(
            (
                lambda: "&".join(f"k{number}=v" for number in range(2_000)),
                lambda: "&" * 3_000,
                lambda: "limit=1&" * 500,
                lambda: "a=%00%ff%fe%c3%28&%zz=%&=&==&%26=%3d",
                lambda: "pretty=true&pretty=false&watch=0&watch=x&timeout=" + "9" * 400 + "s",
                lambda: "labelSelector=" + "%2C" * 5_000,
                lambda: ";".join(["a=b"] * 300),
                lambda: "resourceVersion=" + "9" * 3_000,
            )
        )()
        return self._build_case(self._choose(("GET", "DELETE", "HEAD")), f"{self._choose(TARGETS[:6])}?{query}")

    def _list_case(self) -> Case:
        token = {"v": "meta.k8s.io/v1", "rv": self._choose((1, -1, 0, 2**70, "x", None)), "start": self._choose(NAMES)}
        encoded = base64.urlsafe_b64encode(msgspec.json.encode(token | {} if token["rv"] != 2**70 else {"rv": 1}))
        options = {
            "labelSelector": self._choose(SELECTORS),
            "fieldSelector": self._choose(FIELD_SELECTORS),
            "limit": self._choose(("1", "0", "-9223372036854775809", "1e1", " 1", "")),
            "continue": self._choose((encoded.decode(), encoded.decode().rstrip("="), "=" * 100, "\u00e9")),
            "resourceVersion": self._choose(("0", "1", "18446744073709551616", "-0", "0x1")),
            "resourceVersionMatch": self._choose(("Exact", "NotOlderThan", "exact", "")),
            "sendInitialEvents": self._choose(("true", "x")),
            "shardSelector": "x",
        }
        chosen = {name: value for name, value in options.items() if self._random.random() < 0.35}
        query = "&".join(f"{name}={quote(value)}" for name, value in chosen.items())
        return self._build_case(
            "GET", f"{self._choose((MAPS, PODS, '/api/v1/pods', '/apis/apps/v1/deployments'))}?{query}"
        )

    def _binary_body(self) -> Case:
        media, data = self._choose(
            (
                ("application/cbor", CBOR_PREFIX + b"\xa1\x64kind\x69ConfigMap"),
                ("application/cbor", CBOR_PREFIX + b"\x9f" * 2_000),
                ("application/cbor", CBOR_PREFIX + b"\xbb" + b"\xff" * 8),
                ("application/apply-patch+cbor", CBOR_PREFIX + b"\xa0"),
                (
                    "application/vnd.kubernetes.protobuf",
                    b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap" + b"\x12\xff" * 300,
                ),
                ("application/vnd.kubernetes.protobuf", b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x02\x0a\x00"),
                ("application/vnd.kubernetes.protobuf", b"k8s\x00" + b"\x0a" * 3_000),
                ("application/yaml", b"a: &a {b: &b {c: &c {d: [*a]}}}\n"),
                ("application/yaml", b"kind: ConfigMap\napiVersion: v1\n<<: {metadata: {name: a}}\n"),
                ("application/yaml", b"%TAG ! tag:x,2000:\n--- !<tag:yaml.org,2002:binary> x\n" + b"- " * 500),
                ("application/yaml", b"? [a, b]\n: {? {c: d} : e}\n"),
                ("application/yaml", b"kind: ConfigMap\n---\nkind: Secret\n---\n" * 200),
            )
        )
        head = f"Content-Type: {media}\r\n"
        return self._build_case(
            "PATCH" if "patch" in media else "POST", MAPS + self._choose(("", "/a")), head, self._maybe_damage(data)
        )

    def _large_patch(self) -> Case:
        label = {"op": "add", "path": "/metadata/labels/x", "value": "y"}
        nested: Any = {}
        for _ in range(self._choose((50, 400, 600))):
            nested = {"data": nested}
        value = self._choose(
            (
                [label] * self._choose((100, 10_001)),
                [{"op": "copy", "from": "", "path": "/data/x"}] * 30,
                [{"op": "test", "path": "/" + "~0" * 2_000, "value": None}],
                {"$patch": "replace", "data": {"a": "b"}},
                {"$patch": "delete"},
                {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"] * 500, "$setElementOrder/finalizers": 5}},
                {"metadata": {"ownerReferences": [{"$patch": "merge"}, {"uid": None}, {}]}},
                {"data": {f"k{number}": None for number in range(3_000)}},
                {"metadata": {"managedFields": [{"fieldsV1": {"f:a": {"k:x": {}}}, "operation": "Apply"}]}},
                {"metadata": {"managedFields": None, "resourceVersion": 5, "uid": []}},
                nested,
            )
        )
        head = f"Content-Type: {self._choose(PATCHES)}\r\n"
        query = self._choose(
            ("", "?fieldManager=a", "?fieldManager=a&force=true", "?force=1", "?dryRun=All&fieldManager=%00")
        )
        return self._build_case("PATCH", f"{MAPS}/a{query}", head, self._maybe_damage(msgspec.json.encode(value)))
