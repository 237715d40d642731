"""Scenarios of requests whose responses were recorded from kube-apiserver (`tools/record_scenarios.py`).

In `reference/VERSION/recordings`, `NAME.yaml` has the requests and `NAME.json` the responses, one in a line. A scenario
has these keys:

- `controllers: true`: kube-controller-manager runs beside the server, which has no ServiceAccount admission otherwise;
- `namespace: true`: each run of the scenario has a new namespace, which is `{ns}` in requests and `<ns>` in responses;
- `managed: true`: metadata.managedFields are compared;
- `cleanup`: requests that are sent at the end;
- `steps`: a list of steps.

A step has `request` (`METHOD PATH`) and may have `name`, `body`, `headers`, `save` (values of the response, by dotted
path, for `{NAME}` in later steps), `until` (a dotted `path` and the value that it `is`: the request is repeated until
then), `watch` (the number of events that are read, or `all` if the server ends the watch), `settle: true` (the real
server needs time until the objects of earlier steps have their effect), `ignore` (dotted paths that are not
compared) and `hidden: true` (the response is not compared).
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

import yaml

from sampan.api.kubernetes_version import MINOR_VERSION
from tests.eventually import wait_until

DIRECTORY = Path(__file__).parents[2] / f"reference/v{MINOR_VERSION}/recordings"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNTIL_TIMEOUT_S, _UNTIL_POLL_S, _READ_TIMEOUT_S = 20, 0.05, 30
_DIFFERENT_IN_EACH_RUN = frozenset(
    {
        *("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "time", "clusterIP", "nodePort"),
        *("lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime", "healthCheckNodePort", "token"),
        *("expirationTimestamp", "firstTimestamp", "lastTimestamp", "eventTime", "continue", "selfLink"),
    }
)
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION = re.compile(r'(resourceVersion\\*":\\*")\d+')
_AGE = re.compile(r"(\d+[dhms])+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GENERATED = re.compile(r"(?<=kube-api-access-)[a-z0-9]{5}\b")
_GENERATED_NAME = re.compile(r"(?<=gen-)[a-z0-9]{5}\b")


def scenario_names(*, with_controllers: bool) -> list[str]:
    marker = "controllers: true\n"
    paths = sorted(DIRECTORY.glob("*.yaml"))
    return [path.stem for path in paths if path.read_text().startswith(marker) == with_controllers]


def load_scenario(name: str) -> dict[str, Any]:
    scenario: dict[str, Any] = yaml.load((DIRECTORY / f"{name}.yaml").read_text(), _LOADER)
    return scenario


def responses_path(name: str) -> Path:
    return DIRECTORY / f"{name}.json"


@dataclass(frozen=True)
class ScenarioClient:
    """A client that sends the requests of scenarios, as the user of a bearer token."""

    url: str
    token: str
    ca: Path | None = None
    """The certificate of the server's certificate authority; None: the certificate of the server is not verified."""

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        event_count: int | Literal["all"] = 0,
    ) -> tuple[int, Any, list[str]]:
        """Return status code, body and warnings of a response; the body of a watch is its first events, or all."""
        fields = {"Accept": "application/json", "User-Agent": "recorder/1.0"}
        headers = dict(headers or {})
        if not headers.pop("No-Auth", None):
            fields["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            fields["Content-Type"] = "application/json"
        connection = http.client.HTTPSConnection(
            urlparse(self.url).netloc, timeout=_READ_TIMEOUT_S, context=self._context()
        )
        try:
            connection.request(method, path, data, fields | {key: str(value) for key, value in headers.items()})
            response = connection.getresponse()
            warnings = response.headers.get_all("Warning") or []
            if event_count and response.status == 200:
                count = None if event_count == "all" else event_count
                return 200, [json.loads(line) for line in islice(response, count)], warnings
            return response.status, _parse(response.read().decode("utf-8", "replace")), warnings
        finally:
            connection.close()

    def _context(self) -> ssl.SSLContext:
        if self.ca is not None:
            return ssl.create_default_context(cafile=str(self.ca))
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass
class ScenarioRun:
    """One run of a scenario. `settle` is called where the server needs time."""

    client: ScenarioClient
    name: str
    settle: Callable[[], None] = lambda: None
    _values: dict[str, str] = field(default_factory=dict)

    def responses(self) -> list[dict[str, Any]]:
        """Send all requests, and return the comparable responses of the steps that are not hidden."""
        scenario = load_scenario(self.name)
        if scenario.get("namespace"):
            self._create_namespace(has_controllers="controllers" in scenario)
        responses = []
        for index, step in enumerate(scenario["steps"]):
            if step.get("settle"):
                self.settle()
            status, body, warnings = self._send(step)
            for key, path in (step.get("save") or {}).items():
                self._values[key] = str(_value_at(body, path))
            if step.get("hidden"):
                continue
            body = self._without_changing_values(body)
            for path in [*(step.get("ignore") or ()), *(() if scenario.get("managed") else ("**.managedFields",))]:
                _remove(body, path)
            responses.append(
                {
                    "step": index,
                    "request": step["request"],
                    "name": step.get("name", ""),
                    "status": status,
                    "warning": self._without_changing_values(" | ".join(warnings)) or None,
                    "body": body,
                }
            )
        for request in scenario.get("cleanup") or ():
            self._send({"request": request})
        return responses

    def _create_namespace(self, *, has_controllers: bool) -> None:
        namespace = self._values["ns"] = f"recorded-{secrets.token_hex(4)}"
        self.client.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        if has_controllers:
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            wait_until(lambda: self.client.send("GET", path)[0] == 200, poll_s=_UNTIL_POLL_S)

    def _send(self, step: dict[str, Any]) -> tuple[int, Any, list[str]]:
        method, _, path = self._fill(step["request"]).partition(" ")
        body, headers = self._fill(step.get("body")), self._fill(step.get("headers"))
        response = self.client.send(method, path, body, headers, event_count=step.get("watch", 0))

        def send_again() -> bool:
            nonlocal response
            response = self.client.send(method, path, body, headers)
            return is_expected()

        def is_expected() -> bool:
            until = step.get("until")
            return until is None or bool(_value_at(response[1], until["path"]) == until.get("is"))

        if not is_expected():
            wait_until(send_again, timeout_s=_UNTIL_TIMEOUT_S, poll_s=_UNTIL_POLL_S)
        return response

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\{(\w+)\}", lambda match: self._values.get(match[1], match[0]), value)
        if isinstance(value, dict):
            return {self._fill(key): self._fill(item) for key, item in value.items()}
        return [self._fill(item) for item in value] if isinstance(value, list) else value

    def _without_changing_values(self, value: Any, key: str = "") -> Any:
        """Return the value with placeholders for what is different in each run."""
        if isinstance(value, dict):
            return {name: self._without_changing_values(item, name) for name, item in value.items()}
        if isinstance(value, list):
            item_key = {"clusterIPs": "clusterIP", "cells": "cells"}.get(key, "")
            items = [self._without_changing_values(item, item_key) for item in value]
            return sorted(items, key=_manager_key) if key == "managedFields" else items
        if key in _DIFFERENT_IN_EACH_RUN and value not in (None, "", "None"):
            return f"<{key}>"
        if not isinstance(value, str):
            return value
        if key == "cells" and _AGE.fullmatch(value):
            return "<age>"
        for name, saved in self._values.items():
            if len(saved) > 5:
                value = value.replace(saved, f"<{name}>")
        value = _GENERATED.sub("<gen>", value)
        if key in ("name", "message"):
            value = _GENERATED_NAME.sub("<gen>", value)
        return _TIME.sub("<time>", _UID.sub("<uid>", _VERSION.sub(r"\1<resourceVersion>", value)))


def _manager_key(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return what managers are sorted by here: their own order depends on the second in which they acted."""
    return tuple(entry.get(name) or "" for name in ("operation", "manager", "apiVersion", "subresource"))


def differences(expected: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each value that differs between an expected and a received response."""
    if isinstance(expected, dict) and isinstance(value, dict):
        for key in sorted(expected.keys() | value.keys()):
            missing = "(missing)"
            yield from differences(expected.get(key, missing), value.get(key, missing), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(value, list) and len(expected) == len(value):
        for index, (item, other) in enumerate(zip(expected, value, strict=True)):
            yield from differences(item, other, f"{path}[{index}]")
    elif type(expected) is not type(value) or expected != value:
        yield f"{path}:\n  expected {json.dumps(expected)}\n  received {json.dumps(value)}"


def _value_at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _remove(value: Any, path: str) -> None:
    """Remove what has a dotted path. `*` stands for every key or index, `**` for every depth."""
    head, _, tail = path.partition(".")
    if not isinstance(value, dict | list):
        return
    if head == "**":
        _remove(value, tail)
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        if head == "**":
            _remove(value[key], path)
        elif head not in ("*", str(key)):
            continue
        elif tail:
            _remove(value[key], tail)
        elif isinstance(value, dict):
            del value[key]
