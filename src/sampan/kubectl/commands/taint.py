"""`kubectl taint`: change the taints of nodes.

The text form of taints and their effect on a list of taints are those of `cmd/taint/utils.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag
from sampan.kubectl.command_line.shared_flags import (
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    selector_flag,
    validate_flag,
    validation_directive,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, UsageError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter
from sampan.kubectl.objects.patch_metadata import strategic_patch
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceSelection
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError

Taint = dict[str, str]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    dry_run: str = dry_run_flag()
    validate: str = validate_flag()
    selector: str = selector_flag()
    overwrite: bool = bool_flag("--overwrite", help="Allow changes of existing taints.")
    selects_all: bool = bool_flag("--all", help="Select all nodes of the cluster.")
    field_manager: str = field_manager_flag("kubectl-taint")


@KubectlCommand.define("taint", TaintOptions)
def command(factory: Factory, options: TaintOptions) -> None:
    """Change the taints of nodes."""
    dry_run = dry_run_strategy(options.dry_run)
    validation = validation_directive(options.validate)
    printer = ResultPrinter(options.output, "none")
    resources, texts = _split_words(options.words)
    try:
        added, removed = parse_taint_changes(texts)
    except CliError as error:
        raise UsageError(error.message) from None
    kind = factory.kinds.find_by_name(resources[0].lower())
    if kind.kind != "Node":
        raise KubectlError(f"invalid resource type {resources[0].lower()}, only node types are supported")
    check_conflicts(added, removed)
    _check_flags(resources, options)
    is_selection = options.selects_all or options.selector
    builder = ResourceBuilder(
        factory,
        ResourceSelection(
            words=["node"] if is_selection else ["node", *resources[1:]],
            selector=options.selector,
            selects_all=options.selects_all,
        ),
    )
    writer = ObjectWriter(
        session=factory.session, field_manager=options.field_manager, dry_run=dry_run, validation=validation
    )
    errors = ErrorAggregate()
    for info in builder.infos(errors):
        with errors.collect():
            spec = info.value.get("spec") or {}
            operation, taints = change_taints(
                spec.get("taints") or (), added, removed, overwrite=options.overwrite, node=info.name
            )
            remaining_spec = {key: part for key, part in spec.items() if key != "taints"}
            value = {**info.value, "spec": remaining_spec | ({"taints": taints} if taints else {})}
            if dry_run != "client":
                value = writer.patch(info, strategic_patch(info, value), STRATEGIC)
            printer.print(value, operation)
    errors.raise_any()


def _split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    resources: list[str] = []
    taints: list[str] = []
    for word in words:
        if "=" in word or ":" in word or word.endswith("-"):
            taints.append(word)
        elif taints:
            raise KubectlError(f"all resources must be specified before taint changes: {word}")
        else:
            resources.append(word)
    if not resources:
        raise KubectlError("one or more resources must be specified as <resource> <name>")
    if not taints:
        raise KubectlError("at least one taint update is required")
    return resources, taints


def _check_flags(resources: Sequence[str], options: TaintOptions) -> None:
    if options.selects_all and options.selector:
        raise KubectlError("setting 'all' parameter with a non empty selector is prohibited")
    if not (options.selects_all or options.selector) and len(resources) < 2:
        raise KubectlError("at least one resource name must be specified since 'all' parameter is not set")


def parse_taint_changes(texts: Sequence[str]) -> tuple[list[Taint], list[Taint]]:
    """Parse KEY[=VALUE]:EFFECT (to add) and KEY[:EFFECT]- (to remove)."""
    added: list[Taint] = []
    removed: list[Taint] = []
    for text in texts:
        if text.endswith("-"):
            removed.append({key: part for key, part in _parse_taint(text[:-1]).items() if key != "value"})
            continue
        taint = _parse_taint(text)
        if "effect" not in taint:
            raise CliError(f"invalid taint spec: {text}")
        if any(is_same_taint(taint, added_taint) for added_taint in added):
            shown = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
            raise CliError(f"duplicated taints with the same key and effect: {shown}")
        added.append(taint)
    return added, removed


def _parse_taint(text: str) -> Taint:
    parts = text.split(":")
    if len(parts) > 2:
        raise CliError(f"invalid taint spec: {text}")
    taint: Taint = {"key": parts[0]}
    if len(parts) == 2:
        if parts[1] not in _EFFECTS:
            raise CliError(f"invalid taint effect: {parts[1]}, unsupported taint effect")
        key, *values = parts[0].split("=")
        if len(values) > 1:
            raise CliError(f"invalid taint spec: {text}")
        taint = {"key": key}
        if values and (errors := names.label_value(values[0])):
            raise CliError(f"invalid taint spec: {text}, {'; '.join(errors)}")
        taint |= {"value": values[0]} if values and values[0] else {}
        taint["effect"] = parts[1]
    if errors := names.label_key(taint["key"]):
        raise CliError(f"invalid taint spec: {text}, {'; '.join(errors)}")
    return taint


def check_conflicts(added: Sequence[Taint], removed: Sequence[Taint]) -> None:
    conflicts = [
        f"{removal['key']}={removal.get('effect', '')}"
        for taint in added
        for removal in removed
        if taint["key"] == removal["key"] and removal.get("effect", taint["effect"]) == taint["effect"]
    ]
    if conflicts:
        keys = ", ".join(conflicts)
        raise CliError(f"can not both modify and remove the following taint(s) in the same command: {keys}")


def change_taints(
    current: Sequence[Taint], added: Sequence[Taint], removed: Sequence[Taint], *, overwrite: bool, node: str
) -> tuple[str, list[Taint]]:
    """Return the operation that kubectl reports, and the taints after it. Raise CliError for a taint that exists (if
    `overwrite` is not set), and for a removed one that does not."""
    if not overwrite:
        existing = [taint["key"] for taint in added for current_taint in current if is_same_taint(taint, current_taint)]
        if existing:
            keys = ",".join(existing)
            raise CliError(f"node {node} already has {keys} taint(s) with same effect(s) and --overwrite is false")
    taints = [*added, *(old for old in current if not any(is_same_taint(old, taint) for taint in added))]
    is_longer = len(current) != len(taints)
    errors: list[str] = []
    is_removed = False
    for taint in removed:
        remaining_taints = [old for old in taints if not _is_removed_by(old, taint)]
        is_removed = len(remaining_taints) != len(taints)
        if not is_removed:
            errors.append(f"taint {gotext.quote(_text(taint))} not found")
        taints = remaining_taints
    if errors:
        raise CliError(errors[0] if len(set(errors)) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")
    if overwrite or (is_longer and is_removed):
        return "modified", taints
    return ("tainted" if is_longer else "untainted"), taints


def is_same_taint(taint: Taint, second_taint: Taint) -> bool:
    return taint["key"] == second_taint["key"] and taint.get("effect") == second_taint.get("effect")


def _is_removed_by(taint: Taint, removal: Taint) -> bool:
    return is_same_taint(taint, removal) if "effect" in removal else taint["key"] == removal["key"]


def _text(taint: Taint) -> str:
    return f"{taint['key']}:{taint['effect']}" if "effect" in taint else taint["key"]
