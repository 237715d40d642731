"""`kubectl diff`: the difference between live objects and what apply would make of them.

Exit codes: 0 without a difference, 1 with one, more than 1 for an error.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, int_flag, string_array_flag
from sampan.kubectl.command_line.shared_flags import FilenameOptions, field_manager_flag, filename_flags, selector_flag
from sampan.kubectl.commands.apply import CLIENT_SIDE_MANAGER, warn_if_deleted
from sampan.kubectl.commands.apply.patcher import ApplyPatcher, PatchSchemas
from sampan.kubectl.commands.apply.prune import prunable_objects, prunable_types
from sampan.kubectl.commands.apply.server_side import SERVER_SIDE_MANAGER
from sampan.kubectl.errors import KubectlError, ServerError, SilentExit, UsageError
from sampan.kubectl.objects.last_applied import configuration_text
from sampan.kubectl.objects.object_writer import APPLY, ObjectWriter
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import as_yaml
from sampan.kubectl.printers.objects import without_managed_fields

Versions = tuple[dict[str, Any] | None, dict[str, Any]]
"""The live object (None if it does not exist), and the object that apply would make of it."""

_RETRIES = 4
_is_argument = re.compile("[a-zA-Z0-9-=]+").fullmatch


class DiffCommand(KubectlCommand):
    """A command whose errors have exit code 2: 1 means a difference."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except KubectlError as error:
            click.echo(UsageError(error.message.partition("\nSee '")[0], ctx).text, err=True)
            raise SilentExit(2) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SilentExit:
            raise
        except click.ClickException as error:
            error.show()
            raise SilentExit(2) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    words: tuple[str, ...] = arguments()
    prune_allowlist: tuple[str, ...] = string_array_flag(
        "--prune-allowlist", metavar="GROUP/VERSION/KIND", help="Kind of --prune; repeatable."
    )
    prune: bool = bool_flag("--prune", help="Show objects that apply --prune would delete.")
    show_managed_fields: bool = bool_flag("--show-managed-fields", help="Include managedFields in the comparison.")
    show_secrets: bool = bool_flag("--show-secrets", help="Show the data of Secrets.")
    concurrency: int = int_flag("--concurrency", default=1, metavar="N", help="Number of objects to compare at once.")
    files: FilenameOptions = filename_flags("to compare")
    server_side: bool = bool_flag("--server-side", help="Compare with a server-side apply.")
    force_conflicts: bool = bool_flag(
        "--force-conflicts", help="With --server-side, take fields over from other managers."
    )
    field_manager: str = field_manager_flag(CLIENT_SIDE_MANAGER)
    selector: str = selector_flag()
    changed_flags: frozenset[str] = changed_flags()


@DiffCommand.define("diff", DiffOptions)
def command(factory: Factory, options: DiffOptions) -> None:
    """Show the difference between live objects and what apply would make of them."""
    if options.words:
        raise UsageError(f"Unexpected args: [{' '.join(options.words)}]")
    files = options.files
    if not files:
        raise KubectlError("must specify one of -f and -k")
    files.check()
    if options.force_conflicts and not options.server_side:
        raise KubectlError("--force-conflicts only works with --server-side")
    types = prunable_types(factory, options.prune_allowlist) if options.prune else []
    manager = options.field_manager
    if options.server_side and "field-manager" not in options.changed_flags:
        manager = SERVER_SIDE_MANAGER
    uids: set[str] = set()
    namespaces: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="LIVE-") as live_dir, tempfile.TemporaryDirectory(prefix="MERGED-") as dir:
        infos = ResourceBuilder(
            factory, ResourceSelection(selector=options.selector), ResourceSource(files=files)
        ).infos()
        for info, (live, merged) in _compute_versions(factory.session, manager, infos, options):
            if info.kind.is_namespaced:
                namespaces[info.namespace] = None
            if live is not None:
                uids.add(live["metadata"].get("uid", ""))
            warn_if_deleted(live)
            _write(info, live, merged, (Path(live_dir), Path(dir)), options)
        for info in prunable_objects(factory, types, namespaces, uids, options.selector) if types else ():
            (Path(live_dir) / _file_name(info)).write_text(as_yaml(info.value) + "\n")
        _run_diff(live_dir, dir)


def _compute_versions(
    session: Session, manager: str, infos: Iterable[ResourceInfo], options: DiffOptions
) -> Iterator[tuple[ResourceInfo, Versions]]:
    """Yield the objects with their live and merged versions, in order, with as many connections as --concurrency."""

    def patcher(session: Session) -> ApplyPatcher:
        writer = ObjectWriter(session=session, field_manager=manager, dry_run="server")
        return ApplyPatcher(writer=writer, schemas=PatchSchemas(session, uses_openapi=True))

    if options.concurrency <= 1:
        own = patcher(session)
        yield from ((info, _versions(own, info, options)) for info in infos)
        return
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    objects = list(infos)
    free: SimpleQueue[ApplyPatcher] = SimpleQueue()
    sessions = [session.open_another() for _ in range(min(options.concurrency, len(objects)))]
    for diff_session in sessions:
        free.put(patcher(diff_session))

    def versions(info: ResourceInfo) -> Versions:
        own = free.get()
        try:
            return _versions(own, info, options)
        finally:
            free.put(own)

    try:
        with ThreadPoolExecutor(max_workers=max(1, len(sessions))) as pool:
            yield from zip(objects, pool.map(versions, objects), strict=True)
    finally:
        for diff_session in sessions:
            diff_session.close()


def _versions(patcher: ApplyPatcher, info: ResourceInfo, options: DiffOptions) -> Versions:
    """Return the live object, None if there is none, and the object that apply would make, by a dry run."""
    import msgspec

    for attempt in range(_RETRIES):
        try:
            live: dict[str, Any] | None = patcher.writer.session.get(info.path)
        except ServerError as error:
            if not error.is_not_found:
                raise
            live = None
        try:
            if options.server_side:
                force = {"force": "true" if options.force_conflicts else "false"}
                return live, patcher.writer.patch(info, info.value, APPLY, force)
            if live is None:
                return None, patcher.writer.create(info, info.value)
            is_last = attempt == _RETRIES - 1
            version = "" if is_last else live["metadata"].get("resourceVersion", "")
            modified = msgspec.json.decode(configuration_text(info.value))
            return live, patcher.send(info, live, modified, resource_version=version)[1]
        except ServerError as error:
            if error.error.reason != "Conflict" or attempt == _RETRIES - 1:
                raise
    raise AssertionError("unreachable")


def _file_name(info: ResourceInfo) -> str:
    prefix = f"{info.kind.group}." if info.kind.group else ""
    return f"{prefix}{info.kind.version}.{info.kind.kind}.{info.namespace}.{info.name}"


def _write(
    info: ResourceInfo,
    live: dict[str, Any] | None,
    merged: dict[str, Any],
    directories: tuple[Path, Path],
    options: DiffOptions,
) -> None:
    if not options.show_managed_fields:
        live, merged = without_managed_fields(live) if live is not None else None, without_managed_fields(merged)
    absent = ""
    if not options.show_secrets and (info.kind.version, info.kind.kind) == ("v1", "Secret"):
        live, merged = mask_secrets(live, merged)
        absent = "null\n"  # kubectl writes an absent Secret as null
    for directory, value in zip(directories, (live, merged), strict=True):
        (directory / _file_name(info)).write_text(as_yaml(value) + "\n" if value is not None else absent)


def mask_secrets(live: dict[str, Any] | None, merged: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return two versions of a Secret with masked data that show only which values differ."""
    before, after = (live or {}).get("data") or {}, merged.get("data") or {}
    masked_before, masked_after = dict.fromkeys(before, "***"), dict.fromkeys(after, "***")
    for key in before.keys() & after.keys():
        if before[key] != after[key]:
            masked_before[key], masked_after[key] = "*** (before)", "*** (after)"
    if live is not None and before:
        live = {**live, "data": masked_before}
    return live, {**merged, "data": masked_after} if after else merged


def _run_diff(live: str, merged: str) -> None:
    """Run the program of $KUBECTL_EXTERNAL_DIFF or `diff -u -N`. Raise SilentExit for a difference."""
    program, *arguments = (os.environ.get("KUBECTL_EXTERNAL_DIFF") or "").split(" ")
    line = [program, live, merged, *filter(_is_argument, arguments)] if program else []
    line = line or ["diff", "-u", "-N", live, merged]
    try:
        result = subprocess.run(line, check=False, capture_output=True)
    except OSError as error:
        detail = "executable file not found in $PATH" if isinstance(error, FileNotFoundError) else str(error)
        raise KubectlError(f'failed to run "{line[0]}": {detail}') from None
    click.echo(result.stdout, nl=False)
    click.echo(result.stderr, nl=False, err=True)
    if result.returncode == 1:
        raise SilentExit
    if result.returncode:
        raise KubectlError(f'failed to run "{line[0]}": exit status {result.returncode}')
