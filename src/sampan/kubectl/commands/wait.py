"""`kubectl wait`: wait until objects meet conditions, exist, or are gone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import arguments, bool_flag, duration_flag, string_array_flag, string_slice_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_flag,
    all_namespaces_flag,
    field_selector_flag,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, FoundErrors, KubectlError, ServerError
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.jsonpath import normalize_path
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate

_WEEK_S = 7 * 24 * 3600.0
_POLL_S = 0.25
_TIMED_OUT = "timed out waiting for the condition"
_NO_JSONPATH_VALUE = (
    "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3"
)
_JSONPATH_FORMAT = (
    "jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or "
    "--for=jsonpath='{.status.readyReplicas}'"
)

Condition = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    words: tuple[str, ...] = arguments()
    filenames: tuple[str, ...] = string_slice_flag(
        "-f", "--filename", metavar="FILE", help="File that names the objects."
    )
    recursive: bool = bool_flag("-R", "--recursive", default=True, help="Process the directories of -f recursively.")
    output: OutputOptions = output_flags()
    selector: str = selector_flag()
    field_selector: str = field_selector_flag()
    all_namespaces: bool = all_namespaces_flag()
    selects_all: bool = all_flag()
    is_local: bool = bool_flag("--local", help="Do not contact the server.")
    conditions: tuple[str, ...] = string_array_flag(
        "--for",
        metavar="CONDITION",
        help="What to wait for: create, delete, condition=NAME[=VALUE] or jsonpath=PATH[=VALUE]; repeatable.",
    )
    timeout_s: float = duration_flag(
        "--timeout",
        default_s=30.0,
        metavar="TIME",
        help="How long to wait, 30s by default; 0 checks once, a negative time means a week.",
    )


@KubectlCommand.define("wait", WaitOptions)
def command(factory: Factory, options: WaitOptions) -> None:
    """Wait until objects meet a condition."""
    printer = options.output.printer(operation="condition met")
    timeout_s = options.timeout_s if options.timeout_s >= 0 else _WEEK_S
    checks = _checks(options.conditions)
    wait = ObjectWait(factory.session, timeout_s)
    names = [condition.lower() for condition in options.conditions]

    def infos(errors: ErrorAggregate | None = None) -> Iterator[ResourceInfo]:
        return ResourceBuilder(
            factory,
            ResourceSelection(
                words=options.words,
                selector=options.selector,
                field_selector=options.field_selector,
                all_namespaces=options.all_namespaces,
                selects_all=options.selects_all,
            ),
            ResourceSource(
                files=FilenameOptions(filenames=options.filenames, recursive=options.recursive),
                is_local=options.is_local,
            ),
            ResourceFetch(fetches_latest=True, chunk_size=500),
        ).infos(errors)

    if "create" in names:
        wait.wait_until_created(infos)
    has_objects, errors = False, FoundErrors() if "delete" in names else ErrorAggregate()
    for info in infos(errors):
        has_objects = True
        with errors.collect():
            for check in checks:
                if isinstance(check, str):
                    value = info.value if check == "create" else wait.wait_until_deleted(info)
                else:
                    value = wait.wait_until_met(info, check)
                printer.print(value)
    errors.raise_any()
    if not has_objects and "delete" not in names:
        raise KubectlError("no matching resources found")


def _checks(conditions: Sequence[str]) -> list[Condition | str]:
    checks: list[Condition | str] = []
    for text in conditions:
        if text.lower() in ("create", "delete"):
            checks.append(text.lower())
        elif text.startswith("condition="):
            name, _, value = text.removeprefix("condition=").partition("=")
            checks.append(_status_condition(name, value if "=" in text.removeprefix("condition=") else "true"))
        elif text.startswith("jsonpath="):
            checks.append(_jsonpath_condition(text.removeprefix("jsonpath=")))
        else:
            raise KubectlError(f"unrecognized condition: {quote_text(text)}")
    if not checks:
        raise KubectlError("unrecognized condition: []")
    return checks


def _status_condition(name: str, status: str) -> Condition:
    def is_met(value: dict[str, Any]) -> bool:
        present = value.get("status") or {}
        for condition in present.get("conditions") or ():
            if str(condition.get("type", "")).lower() != name.lower():
                continue
            observed = condition.get("observedGeneration", present.get("observedGeneration"))
            generation = (value.get("metadata") or {}).get("generation")
            if observed is not None and generation is not None and observed < generation:
                return False
            return str(condition.get("status", "")).lower() == status.lower()
        return False

    return is_met


def _jsonpath_condition(text: str) -> Condition:
    parts = [part.replace("\0", "==") for part in text.replace("==", "\0").split("=")]
    if len(parts) > 2:
        raise KubectlError(_JSONPATH_FORMAT)
    try:
        path = normalize_path(parts[0])
        expected = parts[1].strip("'\"") if len(parts) == 2 else ""
        if len(parts) == 2 and not expected:
            raise KubectlError(_NO_JSONPATH_VALUE)
        if not path:
            raise KubectlError("jsonpath expression cannot be empty")
        template = JsonPathTemplate(path)
    except JsonPathError as error:
        raise KubectlError(str(error)) from None

    def is_met(value: dict[str, Any]) -> bool:
        from sampan.api.go_compat import gotext

        try:
            results = template.find(value)
        except JsonPathError as error:
            raise KubectlError(str(error)) from None
        if not (results and results[0]):
            return False
        if len(results) > 1:
            raise KubectlError("given jsonpath expression matches more than one list")
        if len(results[0]) > 1:
            raise KubectlError("given jsonpath expression matches more than one value")
        if not expected:
            return True
        if isinstance(results[0][0], (dict, list)):
            raise KubectlError("jsonpath leads to a nested object or list which is not supported")
        return gotext.value(results[0][0]).strip() == expected.strip()

    return is_met


class ObjectWait:
    """Waits for objects until a deadline that all of them share."""

    def __init__(self, session: Session, timeout_s: float) -> None:
        self._session, self._timeout_s = session, timeout_s
        self._deadline = time.monotonic() + timeout_s

    def wait_until_created(self, infos: Callable[[], Iterator[ResourceInfo]]) -> None:
        while True:
            try:
                if next(infos(), None) is not None:
                    return
            except ServerError as error:
                if not error.is_not_found:
                    raise
            self._sleep(self._time_left_s(_TIMED_OUT))

    def wait_until_met(self, info: ResourceInfo, is_met: Condition) -> dict[str, Any]:
        """Wait until the object meets the condition, and return it. If the object is deleted, the next read raises
        NotFound."""
        while True:
            info.fetch(self._session)
            if is_met(info.value):
                return info.value
            for event in self._events(info, info.value):
                if event["type"] == "DELETED":
                    break
                info.value = event["object"]
                if is_met(info.value):
                    return info.value

    def wait_until_deleted(self, info: ResourceInfo) -> dict[str, Any]:
        """Wait until the object is gone or another object has taken its name. Return its last known state."""
        uid = (info.value.get("metadata") or {}).get("uid")
        while True:
            try:
                present = self._session.get(info.path)
            except ServerError as error:
                if error.is_not_found:
                    return info.value
                raise
            if uid and present["metadata"].get("uid") != uid:
                return info.value
            if any(event["type"] == "DELETED" for event in self._events(info, present)):
                return info.value

    def _events(self, info: ResourceInfo, value: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the watch events of an object after its state `value`, until the watch ends. If the user may not watch
        it, return after a pause, so that the caller reads the object again."""
        if not self._timeout_s:
            raise KubectlError(f"condition not met for {info.kind.plural}/{info.name}")
        left_s = self._time_left_s(f"{_TIMED_OUT} on {info.kind.plural}/{info.name}")
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={info.name}",
            "resourceVersion": str((value.get("metadata") or {}).get("resourceVersion", "")),
            "timeoutSeconds": str(math.ceil(left_s)),
        }
        session = self._session.open_another(timeout_s=left_s)
        try:
            for event in session.lines(info.collection, query):
                if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                    break
                yield event
        except TimeoutError:
            return
        except (ServerError, OSError):
            pass
        finally:
            session.close()
        self._sleep(left_s)

    def _time_left_s(self, message: str) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise KubectlError(message)
        return left_s

    def _sleep(self, left_s: float) -> None:
        time.sleep(min(_POLL_S, left_s))
