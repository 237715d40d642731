"""Edit objects in an editor: the loop of `edit`, `create --edit` and `apply edit-last-applied`
(`kubectl/pkg/cmd/util/editor`)."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.shared_flags import validation_directive
from sampan.kubectl.documents import documents
from sampan.kubectl.errors import KubectlError, ServerError, SilentExit
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text, with_last_applied
from sampan.kubectl.objects.manifests import ManifestObject
from sampan.kubectl.objects.object_writer import MERGE, STRATEGIC, ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import ResourceInfo, kind_for
from sampan.kubectl.printers import OutputOptions, as_json, as_yaml
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError

_HEADER = """\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
"""
_LAST_APPLIED_HEADER = """\
# Please edit the 'last-applied-configuration' annotations below.
# Lines beginning with a '#' will be ignored, and an empty file will abort the edit.
#
"""


@dataclass(slots=True)
class EditResults:
    """The errors and counts from sending the objects of an edited file."""

    reasons: list[tuple[str, list[str]]] = field(default_factory=list)
    """Errors that the user can fix in the editor, each with its details."""
    retryable: int = 0
    not_found: int = 0


class EditFlags(Protocol):
    """The flags that all commands with an editor have."""

    @property
    def output(self) -> OutputOptions: ...
    @property
    def record(self) -> bool: ...
    @property
    def validate(self) -> str: ...
    @property
    def field_manager(self) -> str: ...
    @property
    def windows_line_endings(self) -> bool: ...


class ObjectEdit(ABC):
    """Opens objects in an editor and sends the result, until the server accepts it or the user gives up."""

    header = _HEADER

    def __init__(
        self, factory: Factory, flags: EditFlags, *, saves_config: bool = False, subresource: str = ""
    ) -> None:
        self.factory, self._flags = factory, flags
        self._saves_config, self._subresource = saves_config, subresource
        self.printer = ResultPrinter(flags.output, "none")
        self.writer = ObjectWriter(
            session=factory.session,
            field_manager=flags.field_manager,
            validation=validation_directive(flags.validate),
        )
        self._is_json = flags.output.format == "json"

    @abstractmethod
    def send(self, original: ResourceInfo, edited: ResourceInfo, results: EditResults) -> None:
        """Send an edited object and report it. Add errors that the user can fix in the editor to `results`."""

    def run(self, infos: Sequence[ResourceInfo]) -> None:
        original = self._text(infos)
        results, edited, file = EditResults(), "", ""
        has_error = False
        while True:
            content = self._comments(results) + (without_comments(edited) if has_error else original)
            previous, old_file = edited, file
            edited, file = self._launch(content, old_file)
            if has_error and _has_same_content(previous, edited):
                self._report_copy(file)
                raise KubectlError("Edit cancelled, no valid changes were saved.")
            if old_file:
                Path(old_file).unlink(missing_ok=True)
            if problem := _syntax_problem(edited):
                results, has_error = EditResults(), True
                name = f'{infos[0].kind.group_resource} "{infos[0].name}"'
                detail = f'<nil>: Invalid value: "The edited file failed validation": {problem}'
                results.reasons.append((f"{name} was not valid", [detail]))
                click.echo(f"error: {name} is invalid", err=True)
                continue
            if _has_same_content(original, edited):
                Path(file).unlink(missing_ok=True)
                click.echo("Edit cancelled, no changes made.", err=True)
                return
            if not _has_lines(edited):
                Path(file).unlink(missing_ok=True)
                click.echo("Edit cancelled, saved file was empty.", err=True)
                return
            results = EditResults()
            try:
                updated = self._parse_objects(edited)
            except CliError as error:
                results.reasons.append((f"The edited file had a syntax error: {error.message}", []))
                has_error = True
                continue
            self._send_all(infos, updated, results, file)
            if results.retryable:
                click.echo(f"You can run `kubectl replace -f {file}` to try this update again.", err=True)
                raise SilentExit
            if results.not_found:
                text = f'The edits you made on deleted resources have been saved to "{file}"'
                click.echo(text, err=True)
                raise SilentExit
            if not results.reasons:
                Path(file).unlink(missing_ok=True)
                return
            has_error = True

    def _send_all(
        self, infos: Sequence[ResourceInfo], updated: Sequence[ResourceInfo], results: EditResults, file: str
    ) -> None:
        try:
            for edited in updated:
                value = with_last_applied(edited.value) if self._saves_config else edited.value
                edited.value = with_change_cause(value, self._flags.record)
                self.send(self._original(infos, edited), edited, results)
        except click.ClickException:
            self._report_copy(file)
            raise

    def _original(self, infos: Sequence[ResourceInfo], edited: ResourceInfo) -> ResourceInfo:
        uid = edited.value["metadata"].get("uid")
        for info in infos:
            if info.value["metadata"].get("uid") == uid:
                return info
        raise KubectlError(f"no original object found for {edited.qualified_name}")

    def _text(self, infos: Sequence[ResourceInfo]) -> str:
        values = [_without_managed_fields(info.value) for info in infos]
        value = values[0]
        if len(values) != 1:
            value = {"apiVersion": "v1", "items": values, "kind": "List", "metadata": {}}
        return (as_json(value) if self._is_json else as_yaml(value)) + "\n"

    def _comments(self, results: EditResults) -> str:
        if self._is_json:
            return ""
        lines = [self.header]
        for head, details in results.reasons:
            lines.append(f"# {_comment_out(head)}{':' if details else ''}\n")
            lines += [f"# * {_comment_out(detail)}\n" for detail in details]
            lines.append("#\n")
        return "".join(lines)

    def _launch(self, content: str, copy_path: str) -> tuple[str, str]:
        """Open a new file with the content in the editor. Return the edited content and the path of the file."""
        if self._flags.windows_line_endings:
            content = content.replace("\n", "\r\n")
        suffix = ".json" if self._is_json else ".yaml"
        descriptor, path = tempfile.mkstemp(prefix="kubectl-edit-", suffix=suffix)
        with os.fdopen(descriptor, "w", newline="") as file:
            file.write(content)
        try:
            launch_editor(path)
        except KubectlError:
            if copy_path:
                self._report_copy(copy_path)
            raise
        return Path(path).read_text(errors="replace"), path

    def _parse_objects(self, text: str) -> list[ResourceInfo]:
        infos: list[ResourceInfo] = []
        for value in documents(text, "edited-file"):
            if not isinstance(value, dict):
                raise KubectlError("error parsing edited-file: the document is not an object")
            is_list = isinstance(value.get("items"), list)
            for item in value["items"] if is_list else [value]:
                if not (isinstance(item, dict) and item.get("apiVersion") and item.get("kind")):
                    missing = "Kind" if not (isinstance(item, dict) and item.get("kind")) else "apiVersion"
                    shown = msgspec.json.encode(item, order="sorted").decode()
                    raise KubectlError(f"Object '{missing}' is missing in '{shown}'")
                item.setdefault("metadata", {})
                manifest = ManifestObject(item, "edited-file")
                kind = kind_for(self.factory.kinds, manifest)
                namespace = (manifest.namespace or self.factory.namespace) if kind.is_namespaced else ""
                info = ResourceInfo(kind, namespace, manifest.name, item, "edited-file")
                info.subresource = self._subresource
                infos.append(info)
        return infos

    @staticmethod
    def _report_copy(file: str) -> None:
        if file and Path(file).exists():
            click.echo(f'A copy of your changes has been stored to "{file}"', err=True)


class LiveEdit(ObjectEdit):
    """`kubectl edit`: the changes are sent as a patch."""

    def __init__(self, factory: Factory, flags: EditFlags, *, prints_patch: bool, **attributes: Any) -> None:
        super().__init__(factory, flags, **attributes)
        self._prints_patch = prints_patch

    def send(self, original: ResourceInfo, edited: ResourceInfo, results: EditResults) -> None:
        from sampan.kubectl.objects.patch_metadata import built_in_schema
        from sampan.machinery import patch as patches

        before = original.value
        after = _with_managed_fields(edited.value, before)
        if before == after:
            self.printer.print(after, "skipped")
            return
        for path in (("apiVersion",), ("kind",), ("metadata", "name")):
            if _get_path(before, path) != _get_path(after, path):
                raise KubectlError("At least one of apiVersion, kind and name was changed")
        schema = built_in_schema(edited.kind.api_version, edited.kind.kind)
        if schema is None:
            patch, media_type = patches.merge_diff(before, after), MERGE
        else:
            patch, media_type = patches.strategic_diff(before, after, schema), STRATEGIC
        if self._prints_patch:
            click.echo(f"Patch: {msgspec.json.encode(patch, order='sorted').decode()}")
        try:
            value = self.writer.patch(edited, patch, media_type)
        except ServerError as error:
            click.echo(_add_error(results, error, edited), err=True)
            return
        self.printer.print(value, "edited")


class CreateEdit(ObjectEdit):
    """`kubectl create --edit`: the edited objects are created."""

    def _original(self, infos: Sequence[ResourceInfo], edited: ResourceInfo) -> ResourceInfo:
        return edited

    def send(self, original: ResourceInfo, edited: ResourceInfo, results: EditResults) -> None:
        self.printer.print(self.writer.create(edited, edited.value), "created")


class LastAppliedEdit(ObjectEdit):
    """`kubectl apply edit-last-applied`: the edited configurations are stored in the annotation."""

    header = _LAST_APPLIED_HEADER

    def run_for(self, infos: Sequence[ResourceInfo]) -> None:
        """Edit the configurations in the annotations of live objects."""
        configurations: list[ResourceInfo] = []
        for info in infos:
            text = last_applied_text(info.value)
            if text is not None:
                value = msgspec.json.decode(text)
                configurations.append(ResourceInfo(info.kind, info.namespace, info.name, value))
        if not configurations:
            raise KubectlError(
                "no last-applied-configuration annotation found on resources, to create the annotation, use command "
                "`kubectl apply set-last-applied --create-annotation`"
            )
        self.run(configurations)

    def send(self, original: ResourceInfo, edited: ResourceInfo, results: EditResults) -> None:
        from sampan.api.go_compat import gotext

        if original.value == edited.value:
            self.printer.print(edited.value, "skipped")
            return
        text = gotext.json_text(edited.value) + "\n"
        self.writer.patch(edited, {"metadata": {"annotations": {LAST_APPLIED: text}}}, MERGE)
        self.printer.print(edited.value, "edited")


def _add_error(results: EditResults, error: ServerError, info: ResourceInfo) -> str:
    """Add an error to the results and return its text for the user."""
    name = f'{info.kind.group_resource} "{info.name}"'
    if error.error.reason == "Invalid":
        details = [f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in error.error.causes]
        results.reasons.append((f"{name} was not valid", details))
        return f"error: {name} is invalid"
    if error.is_not_found:
        results.not_found += 1
        return f"error: {name} could not be found on the server"
    results.retryable += 1
    return f"error: {name} could not be patched: {error.error.message}"


def launch_editor(path: str) -> None:
    """Run the editor of $KUBE_EDITOR or $EDITOR, else vi, and wait until it ends."""
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    is_shell = any(mark in editor for mark in "\"'\\") and " " in editor
    if is_shell:
        shell = os.environ.get("SHELL") or "/bin/bash"
        arguments = [shell, "-c", f"{editor} {shlex.quote(path)}"]
    else:
        arguments = [*editor.split(" "), path]
    shown = editor if is_shell else arguments[0]
    try:
        code = subprocess.run(arguments, check=False).returncode
    except OSError:
        raise KubectlError(f"unable to launch the editor {_quote_text(shown)}") from None
    if code:
        raise KubectlError(f"there was a problem with the editor {_quote_text(shown)}")


def _quote_text(text: str) -> str:
    from sampan.kubectl.command_line.flag_parser import quote_text

    return quote_text(text)


def without_comments(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line.strip().startswith("#") or line.strip().startswith("#!"))


def _syntax_problem(text: str) -> str:
    """Return why a file cannot hold objects; empty if it can."""
    from sampan.api.codec import yaml

    try:
        value = yaml.decode(text.encode()).value
    except yaml.YamlError as error:
        return str(error)
    if not isinstance(value, dict):
        return "invalid object to validate"
    missing = [f"{field} not set" for field in ("apiVersion", "kind") if not value.get(field)]
    return missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]" if missing else ""


def _has_same_content(first: str, second: str) -> bool:
    """Whether two texts mean the same, apart from comments."""
    try:
        return list(documents(first, "")) == list(documents(second, ""))
    except CliError:
        return without_comments(first) == without_comments(second)


def _has_lines(text: str) -> bool:
    return any(line.strip() and not line.strip().startswith("#") for line in text.splitlines())


def _comment_out(text: str) -> str:
    return text.replace("\n", "\n# ").replace("# #", "#")


def _without_managed_fields(value: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: part for key, part in (value.get("metadata") or {}).items() if key != "managedFields"}
    return {**value, "metadata": metadata}


def _with_managed_fields(value: dict[str, Any], original: dict[str, Any]) -> dict[str, Any]:
    fields = original["metadata"].get("managedFields")
    return {**value, "metadata": {**value["metadata"], "managedFields": fields}} if fields else value


def _get_path(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = (value or {}).get(part)
    return value
