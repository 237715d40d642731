"""A synchronous API client: JSON over HTTPS, one request after the other.

`Api` sends any request; `api.for_resource("pods")` finds the path of a resource by discovery, as clients do, and works
on its objects.
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
TIMEOUT_S = 60

Value = dict[str, Any]


class ApiError(Exception):
    """The response is a failure."""

    def __init__(self, status: Value) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        self.code: int = status["code"]
        self.reason: str = status.get("reason", "")


class Api:
    """A client in the namespace of the test. It acts as the administrator; `as_user` and `with_token` return clients
    for other users."""

    def __init__(self, cluster: Cluster, namespace: str, *, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.namespace = namespace
        self._cluster, self._headers = cluster, CIMultiDict(headers)
        self._tls = ssl.create_default_context(cafile=str(cluster.ca))
        if "Authorization" not in self._headers:
            self._tls.load_cert_chain(*cluster.client_certificate)
        self._connection = self._connect()
        self._others: list[Api] = []

    def as_user(self, user: str, *, uid: str, groups: Sequence[str]) -> "Api":
        headers = [("Impersonate-User", user), ("Impersonate-Uid", uid)]
        headers += [("Impersonate-Group", group) for group in groups]
        return self._add_client(headers)

    def with_token(self, token: str) -> "Api":
        return self._add_client([("Authorization", f"Bearer {token}")])

    def close(self) -> None:
        self._connection.close()
        for other in self._others:
            other.close()

    def for_resource(self, plural: str, version: str = "v1") -> "Objects":
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        (row,) = (row for row in self.get(base)["resources"] if row["name"] == plural)
        collection = f"{base}/namespaces/{self.namespace}/{plural}" if row["namespaced"] else f"{base}/{plural}"
        return Objects(
            self, collection, all_namespaces=f"{base}/{plural}", kind={"apiVersion": version, "kind": row["kind"]}
        )

    def get(self, path: str, **query: Any) -> Value:
        return self.send("GET", path, **query)

    def send(
        self, method: str, path: str, body: Any = None, *, content: str = "application/json", **query: Any
    ) -> Value:
        """Return the decoded response; raise ApiError if it is a failure."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = self.send_raw(method, path, None if body is None else data, {"Content-Type": content}, **query)
        document: Value = json.loads(reply[2])
        if reply[0] >= 400:
            raise ApiError(document)
        return document

    def send_raw(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, **query: Any
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        sent = CIMultiDict([*self._headers.items(), *{"Accept": "application/json", **(headers or {})}.items()])
        self._connection.request(method, _target(path, query), body=body, headers=sent)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator["Watch"]:
        """Open a watch on a connection of its own, for the length of the block."""
        connection = self._connect()
        try:
            connection.request("GET", _target(path, {"watch": "true", **query}), headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError(json.loads(response.read()))
            yield Watch(response)
        finally:
            connection.close()

    def _add_client(self, headers: Sequence[tuple[str, str]]) -> "Api":
        self._others.append(Api(self._cluster, self.namespace, headers=headers))
        return self._others[-1]

    def _connect(self) -> http.client.HTTPSConnection:
        url = urlsplit(self._cluster.url)
        return http.client.HTTPSConnection(url.hostname or "", url.port, context=self._tls, timeout=TIMEOUT_S)


class Watch:
    """An open watch; each event is returned once."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def read_event(self) -> tuple[str, Value]:
        line = self._response.readline()
        assert line, "the watch has ended"
        event = json.loads(line)
        return event["type"], event["object"]

    def wait_for(self, type: str, holds: Callable[[Value], bool] = lambda obj: True) -> Value:
        """Skip events until one of this type matches, and return its object."""
        while True:
            event, obj = self.read_event()
            if event == type and holds(obj):
                return obj

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and object name of the next `count` events."""
        return [(type, obj["metadata"]["name"]) for type, obj in (self.read_event() for _ in range(count))]


class Objects:
    """The objects of one resource, in the namespace of the test if the resource is namespaced."""

    def __init__(self, api: Api, collection: str, *, all_namespaces: str, kind: Mapping[str, str]) -> None:
        self._api, self.collection_path, self.all_namespaces_path, self.kind = api, collection, all_namespaces, kind

    def path(self, name: str, subresource: str = "") -> str:
        return f"{self.collection_path}/{quote(name)}" + (f"/{subresource}" if subresource else "")

    def create(self, name: str, labels: Mapping[str, str] | None = None, **content: Any) -> Value:
        meta = {"name": name, "labels": dict(labels or {}), **content.pop("metadata", {})}
        return self._api.send("POST", self.collection_path, {**self.kind, "metadata": meta, **content})

    def get(self, name: str, subresource: str = "") -> Value:
        return self._api.get(self.path(name, subresource))

    def list_all(self, **query: Any) -> list[Value]:
        items: list[Value] = self._api.get(self.collection_path, **query)["items"]
        return items

    def names(self, labels: str = "", *, path: str = "") -> list[str]:
        """Return the names of the objects with these labels, in the collection at `path` if it is given."""
        query = {"labelSelector": labels} if labels else {}
        return [obj["metadata"]["name"] for obj in self._api.get(path or self.collection_path, **query)["items"]]

    def update(self, changed: Value, subresource: str = "") -> Value:
        return self._api.send("PUT", self.path(changed["metadata"]["name"], subresource), {**self.kind, **changed})

    def change(self, name: str, change: Callable[[Value], None], subresource: str = "") -> Value:
        """Read, change and update an object; repeat after a conflict."""
        while True:
            obj = self.get(name)
            change(obj)
            try:
                return self.update(obj, subresource)
            except ApiError as refused:
                if refused.reason != "Conflict":
                    raise

    def patch(self, name: str, patch: Any, subresource: str = "", *, content: str = MERGE, **query: Any) -> Value:
        return self._api.send("PATCH", self.path(name, subresource), patch, content=content, **query)

    def delete(self, name: str, **query: Any) -> None:
        self._api.send("DELETE", self.path(name), **query)

    def delete_all(self, labels: str, **query: Any) -> None:
        self._api.send("DELETE", self.collection_path, labelSelector=labels, **query)

    def is_gone(self, name: str) -> bool:
        try:
            self.get(name)
        except ApiError as refused:
            if (refused.code, refused.reason) != (404, "NotFound"):
                raise
            return True
        return False

    def watch(self, **query: Any) -> Any:
        return self._api.watch(self.collection_path, **query)


def _target(path: str, query: Mapping[str, Any]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def version_of(obj: Value) -> int:
    """Return the resource version as a number."""
    version = obj["metadata"]["resourceVersion"]
    assert version.isdecimal()
    return int(version)


def contains(actual: Any, expected: Any) -> bool:
    """Whether `actual` has everything that `expected` has. Objects may have further fields; lists must have the same
    length."""
    if isinstance(expected, dict):
        return all(key in actual and contains(actual[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(contains, actual, expected))
    return bool(actual == expected)
