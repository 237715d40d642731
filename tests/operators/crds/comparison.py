"""Comparison of the answers of two API servers to the same CustomResourceDefinitions, created in a dry run."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TIMEOUT_S = 120.0
_VOLATILE_FIELDS = ("uid", "creationTimestamp", "managedFields")

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    code: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...]

    def comparable(self) -> dict[str, Any]:
        """Return what must be the same on every server: no identities and no times, causes by field."""
        body = json.loads(json.dumps(self.body))
        if body["kind"] == "Status":
            details = body.get("details") or {}
            causes = sorted((cause.get("field", ""), cause["message"]) for cause in details.pop("causes", ()))
            return {"code": self.code, "message": "" if causes else body.get("message"), "causes": causes}
        for field in _VOLATILE_FIELDS:
            body["metadata"].pop(field, None)
        for condition in body["status"].get("conditions") or ():
            condition.pop("lastTransitionTime", None)
        return {"code": self.code, "body": body, "warnings": sorted(self.warnings)}


class Server:
    """An API server, with one connection that is kept."""

    def __init__(self, port: int, tls: ssl.SSLContext, token: str = "") -> None:
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=_TIMEOUT_S)
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def is_ready(self) -> bool:
        try:
            self._connection.request("GET", "/readyz", headers=self._headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False
        return response.status == 200

    def create(self, definition: Definition) -> Response:
        body = json.dumps(definition).encode()
        self._connection.request("POST", f"{PATH}?dryRun=All&fieldValidation=Warn", body, self._headers)
        reply = self._connection.getresponse()
        warnings = reply.headers.get_all("Warning") or []
        return Response(reply.status, json.loads(reply.read()), tuple(warnings))

    def close(self) -> None:
        self._connection.close()


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ; numbers are compared with their types."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from differences(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (first, second) in enumerate(zip(left, right, strict=True)):
            yield from differences(first, second, f"{path}[{index}]")
    elif left != right or type(left) is not type(right):
        yield f"{path}: {_shorten(left)} instead of {_shorten(right)}"


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
