"""Requests that create and change objects (`cli-runtime/pkg/resource.Helper`), and the report of their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.flag_parser import DeprecatedOption
from sampan.kubectl.command_line.shared_options import Decorator, dry_run_of, printer_of
from sampan.kubectl.errors import ServerError
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import Printer
from sampan.kubectl.printers.objects import NamePrinter, qualified_name

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
CHANGE_CAUSE = "kubernetes.io/change-cause"
_SUFFIXES = {"client": " (dry run)", "server": " (server dry run)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWriter:
    """Sends changes with the field manager and the options of a command. The caller handles a client-side dry run."""

    session: Session
    field_manager: str = ""
    dry_run: str = "none"
    validation: str = ""

    def create(self, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any]:
        """Create an object. Its resourceVersion, if it has one, is dropped."""
        metadata = value.get("metadata") or {}
        if metadata.get("resourceVersion"):
            kept = {key: part for key, part in metadata.items() if key != "resourceVersion"}
            value = {**value, "metadata": kept}
        return self._send("POST", info.collection, value)

    def patch(
        self, info: ResourceInfo, patch: Any, media_type: str, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._send("PATCH", info.path, patch, media_type, query)

    def replace(self, info: ResourceInfo, value: dict[str, Any]) -> dict[str, Any]:
        """Replace an object. If the new object has no resourceVersion, use that of the stored one."""
        metadata = value.get("metadata") or {}
        if not metadata.get("resourceVersion"):
            try:
                version = self.session.get(info.path)["metadata"].get("resourceVersion")
            except ServerError:
                version = None  # The PUT request below fails with the error of the server.
            if version:
                value = {**value, "metadata": {**metadata, "resourceVersion": version}}
        return self._send("PUT", info.path, value)

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        parameters = {"fieldManager": self.field_manager, "fieldValidation": self.validation}
        parameters |= {"dryRun": "All"} if self.dry_run == "server" else {}
        parameters = {key: text for key, text in parameters.items() if text}
        result: dict[str, Any] = self.session.send(
            method, path, {**parameters, **(query or {})}, body=body, content_type=content_type
        )
        return result


class ResultPrinter:
    """Prints what happened to an object, `pod/web created (server dry run)`, or the object in the format of -o."""

    def __init__(self, options: Mapping[str, Any], *, dry_run: str | None = None, is_sorted: bool = True) -> None:
        self._suffix = _SUFFIXES.get(dry_run_of(options) if dry_run is None else dry_run, "")
        self._printer: Printer = printer_of(options, operation="changed", is_sorted=is_sorted)

    @property
    def prints_objects(self) -> bool:
        """Whether -o requests more than names."""
        return not isinstance(self._printer, NamePrinter)

    def print(self, value: dict[str, Any], operation: str) -> None:
        if isinstance(self._printer, NamePrinter) and self._printer.operation:
            text = f"{operation}{self._suffix}"
            click.echo(f"{qualified_name(value)} {text}" if text else qualified_name(value))
        else:
            self._printer.print(value)


def record_option() -> Decorator:
    """Return a decorator that adds --record, which stores the command line in an annotation; see
    `with_change_cause`."""
    return click.option(
        "--record",
        is_flag=True,
        cls=DeprecatedOption,
        message="--record will be removed in the future",
        help="Store the command line in an annotation of the object.",
    )


def save_config_option() -> Decorator:
    return click.option(
        "--save-config",
        is_flag=True,
        help="Store the configuration in the annotation that kubectl apply needs to detect removed fields.",
    )


def with_change_cause(value: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with the command line as its change cause if --record is set."""
    if not options.get("record"):
        return value
    metadata = value.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), CHANGE_CAUSE: change_cause()}
    return {**value, "metadata": {**metadata, "annotations": annotations}}


def record_change(value: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Store the command line in an object, in place, if --record is set."""
    if options.get("record"):
        metadata = value.setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), CHANGE_CAUSE: change_cause()}


def change_cause() -> str:
    """Return the command line as kubectl records it: the words, then the flags with their values."""
    from sampan.kubectl.command_line.command import CHANGED_FLAGS
    from sampan.kubectl.errors import command_path

    context = click.get_current_context()
    words = [command_path(context), *context.params.get("words", ())]
    for option in context.command.params:
        if isinstance(option, click.Option) and option.name in context.meta[CHANGED_FLAGS]:
            name = max(option.opts, key=len)
            setting = context.params[option.name]
            parts = setting if isinstance(setting, tuple) else (setting,)
            words += [f"{name}={str(part).lower() if isinstance(part, bool) else part}" for part in parts]
    return " ".join(words)
