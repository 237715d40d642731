"""The API as its users see it: JSON over HTTPS, one request after the other.

`Api` sends anything; `api.of("pods")` asks discovery where a resource is, as clients do, and speaks of its objects.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from multidict import CIMultiDict

from sampan.testing import Cluster

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
PATIENCE_S = 60

Value = dict[str, Any]


class Refused(Exception):
    """An answer that is a failure."""

    def __init__(self, status: Value) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.code: int = status["code"]
        self.reason: str = status.get("reason", "")


class Api:
    """For the administrator, in a namespace of the test's own; `as_user` and `bearing` give it for somebody else."""

    def __init__(self, cluster: Cluster, namespace: str, *, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.namespace = namespace
        self._cluster, self._headers = cluster, CIMultiDict(headers)
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        if "Authorization" not in self._headers:
            self._tls.load_cert_chain(*cluster.client_certificate)
        self._connection = self._connected()
        self._others: list[Api] = []

    def as_user(self, user: str, *, uid: str, groups: Sequence[str]) -> "Api":
        headers = [("Impersonate-User", user), ("Impersonate-Uid", uid)]
        headers += [("Impersonate-Group", group) for group in groups]
        return self._other(headers)

    def bearing(self, token: str) -> "Api":
        return self._other([("Authorization", f"Bearer {token}")])

    def close(self) -> None:
        self._connection.close()
        for other in self._others:
            other.close()

    def of(self, plural: str, version: str = "v1") -> "Objects":
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (row,) = (row for row in self.get(base)["resources"] if row["name"] == plural)
        place = f"{base}/namespaces/{self.namespace}/{plural}" if row["namespaced"] else f"{base}/{plural}"
        return Objects(self, place, everywhere=f"{base}/{plural}", kind={"apiVersion": version, "kind": row["kind"]})

    def get(self, path: str, **query: Any) -> Value:
        return self.send("GET", path, **query)

    def send(
        self, method: str, path: str, body: Any = None, *, content: str = "application/json", **query: Any
    ) -> Value:
        """What the answer says; Refused if it is a failure."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = self.raw(method, path, None if body is None else data, {"Content-Type": content}, **query)
        document: Value = json.loads(reply[2])
        if reply[0] >= 400:
            raise Refused(document)
        return document

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, **query: Any
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        sent = CIMultiDict([*self._headers.items(), *{"Accept": "application/json", **(headers or {})}.items()])
        self._connection.request(method, _target(path, query), body=body, headers=sent)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator["Watch"]:
        """On a connection of its own, for the length of the block."""
        connection = self._connected()
        try:
            connection.request("GET", _target(path, {"watch": "true", **query}), headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(json.loads(response.read()))
            yield Watch(response)
        finally:
            connection.close()

    def _other(self, headers: Sequence[tuple[str, str]]) -> "Api":
        self._others.append(Api(self._cluster, self.namespace, headers=headers))
        return self._others[-1]

    def _connected(self) -> http.client.HTTPSConnection:
        place = urlsplit(self._cluster.url)
        return http.client.HTTPSConnection(place.hostname or "", place.port, context=self._tls, timeout=PATIENCE_S)


class Watch:
    """Of events that come, each once."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def next(self) -> tuple[str, Value]:
        line = self._response.readline()
        assert line, "the watch has ended"
        event = json.loads(line)
        return event["type"], event["object"]

    def until(self, type: str, holds: Callable[[Value], bool] = lambda obj: True) -> Value:
        """The first of such events; those before it are passed over."""
        while True:
            event, obj = self.next()
            if event == type and holds(obj):
                return obj

    def take(self, count: int) -> list[tuple[str, str]]:
        """Of so many events, what happened to which object."""
        return [(type, obj["metadata"]["name"]) for type, obj in (self.next() for _ in range(count))]


class Objects:
    """Of one resource, in the test's namespace if they are in any."""

    def __init__(self, api: Api, place: str, *, everywhere: str, kind: Mapping[str, str]) -> None:
        self._api, self.place, self.everywhere, self.kind = api, place, everywhere, kind

    def path(self, name: str, subresource: str = "") -> str:
        return f"{self.place}/{quote(name)}" + (f"/{subresource}" if subresource else "")

    def create(self, name: str, labels: Mapping[str, str] | None = None, **content: Any) -> Value:
        meta = {"name": name, "labels": dict(labels or {}), **content.pop("metadata", {})}
        return self._api.send("POST", self.place, {**self.kind, "metadata": meta, **content})

    def get(self, name: str, subresource: str = "") -> Value:
        return self._api.get(self.path(name, subresource))

    def all(self, **query: Any) -> list[Value]:
        items: list[Value] = self._api.get(self.place, **query)["items"]
        return items

    def names(self, labels: str = "", *, place: str = "") -> list[str]:
        """Of those with the labels; `place` is another to look at."""
        query = {"labelSelector": labels} if labels else {}
        return [obj["metadata"]["name"] for obj in self._api.get(place or self.place, **query)["items"]]

    def update(self, changed: Value, subresource: str = "") -> Value:
        return self._api.send("PUT", self.path(changed["metadata"]["name"], subresource), {**self.kind, **changed})

    def change(self, name: str, change: Callable[[Value], None], subresource: str = "") -> Value:
        """Read, change and update, again if others were quicker."""
        while True:
            obj = self.get(name)
            change(obj)
            try:
                return self.update(obj, subresource)
            except Refused as refused:
                if refused.reason != "Conflict":
                    raise

    def patch(self, name: str, patch: Any, subresource: str = "", *, content: str = MERGE, **query: Any) -> Value:
        return self._api.send("PATCH", self.path(name, subresource), patch, content=content, **query)

    def delete(self, name: str, **query: Any) -> None:
        self._api.send("DELETE", self.path(name), **query)

    def delete_all(self, labels: str, **query: Any) -> None:
        self._api.send("DELETE", self.place, labelSelector=labels, **query)

    def is_gone(self, name: str) -> bool:
        try:
            self.get(name)
        except Refused as refused:
            if (refused.code, refused.reason) != (404, "NotFound"):
                raise
            return True
        return False

    def watch(self, **query: Any) -> Any:
        return self._api.watch(self.place, **query)


def _target(path: str, query: Mapping[str, Any]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def version_of(obj: Value) -> int:
    """The resource version, which is to be a number."""
    version = obj["metadata"]["resourceVersion"]
    assert version.isdecimal()
    return int(version)


def contains(actual: Any, expected: Any) -> bool:
    """All that is wanted, in lists one by one; servers may know more."""
    if isinstance(expected, dict):
        return all(key in actual and contains(actual[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(contains, actual, expected))
    return bool(actual == expected)
