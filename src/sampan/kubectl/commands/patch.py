"""`kubectl patch`: change fields of an object with a JSON patch, a merge patch or a strategic merge patch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand, command_line_text
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    subresource_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import CHANGE_CAUSE, JSON_PATCH, MERGE, STRATEGIC, ObjectWriter
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_TYPES = {"json": JSON_PATCH, "merge": MERGE, "strategic": STRATEGIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchOptions:
    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    patch_text: str = string_flag("-p", "--patch", metavar="PATCH", help="Patch in JSON or YAML.")
    patch_file: str = string_flag("--patch-file", metavar="FILE", help="File with the patch.")
    patch_type: str = string_flag(
        "--type", default="strategic", metavar="json|merge|strategic", help="Type of the patch."
    )
    dry_run: str = dry_run_flag()
    files: FilenameOptions = filename_flags("to patch")
    local: bool = bool_flag("--local", help="Patch the content of the file, not the object on the server.")
    field_manager: str = field_manager_flag("kubectl-patch")
    subresource: str = subresource_flag("Patch this subresource of the object.")


@KubectlCommand.define("patch", PatchOptions)
def command(factory: Factory, options: PatchOptions) -> None:
    """Change fields of an object."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, "none")
    _check_flags(options.words, options, dry_run)
    media_type = _TYPES[options.patch_type.lower() or "strategic"]
    patch = _read_patch(options)
    writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
    is_local = options.local or dry_run == "client"
    errors, count = ErrorAggregate(), 0
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=options.words, subresource=options.subresource),
        ResourceSource(files=options.files, is_local=options.local),
    )
    for info in builder.infos(errors):
        count += 1
        with errors.collect():
            value = (
                _patch_locally(info, patch, media_type)
                if is_local
                else _patch(writer, info, patch, media_type, options)
            )
            printer.print(value, "patched" if value != info.value else "patched (no change)")
    errors.raise_any()
    if not count:
        raise KubectlError("no objects passed to patch")


def _check_flags(words: tuple[str, ...], options: PatchOptions, dry_run: str) -> None:
    if options.patch_text and options.patch_file:
        raise KubectlError("cannot specify --patch and --patch-file together")
    if not (options.patch_text or options.patch_file):
        raise KubectlError("must specify --patch or --patch-file containing the contents of the patch")
    if options.local and words:
        raise KubectlError("cannot specify --local and server resources")
    if options.local and dry_run == "server":
        raise KubectlError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    if options.patch_type and options.patch_type.lower() not in _TYPES:
        kind = quote_text(options.patch_type)
        raise KubectlError(f"--type must be one of [json merge strategic], not {kind}")


def _read_patch(options: PatchOptions) -> bytes:
    """Return the patch as JSON. A patch that begins like a JSON object is sent as it is, so that the server reports
    errors in it."""
    import msgspec

    from sampan.api.codec import yaml

    text = str(options.patch_text)
    data = text.encode()
    if options.patch_file:
        try:
            data = Path(options.patch_file).read_bytes()
        except OSError as error:
            reason = f"open {options.patch_file}: {(error.strerror or str(error)).lower()}"
            raise KubectlError(f"unable to read patch file: {reason}") from None
    if data.lstrip().startswith(b"{"):
        return data
    try:
        return msgspec.json.encode(yaml.decode(data).value, order="sorted")
    except yaml.YamlError as error:
        raise KubectlError(f"unable to parse {quote_text(text)}: {error}") from None


def _patch(
    writer: ObjectWriter, info: ResourceInfo, patch: bytes, media_type: str, options: PatchOptions
) -> dict[str, Any]:
    try:
        value = writer.patch(info, patch, media_type)
    except ServerError as error:
        if error.error.code == 415:
            kind = f"{info.kind.api_version}, Kind={info.kind.kind}"
            raise KubectlError(f"{media_type} is not supported by {kind}: {error.error.message}") from None
        raise
    if options.record:
        annotations = {CHANGE_CAUSE: command_line_text()}
        value = writer.patch(info, {"metadata": {"annotations": annotations}}, MERGE)
    return value


def _patch_locally(info: ResourceInfo, data: bytes, media_type: str) -> dict[str, Any]:
    """Return the object after the patch is applied on the client, without a request."""
    import msgspec

    from sampan.kubectl.objects.patch_metadata import built_in_schema
    from sampan.machinery import patch as patches

    value = info.value
    try:
        patch = msgspec.json.decode(data)
        if media_type == MERGE:
            return patches.apply_merge_patch(value, patches.check_merge_patch(patch))
        if media_type == JSON_PATCH:
            result: dict[str, Any] = patches.apply_json_patch(value, patches.check_json_patch(patch))
            return result
        schema = built_in_schema(info.kind.api_version, info.kind.kind)
        if schema is None:
            kind = f"{info.kind.group}/{info.kind.version}, Kind={info.kind.kind}"
            raise KubectlError(f"strategic merge patch is not supported for {kind} locally, try --type merge")
        return patches.apply_strategic_patch(value, patches.check_strategic_patch(patch), schema)
    except (patches.PatchError, msgspec.DecodeError) as error:
        raise KubectlError(str(error)) from None
