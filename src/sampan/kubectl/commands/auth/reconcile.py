"""`kubectl auth reconcile`: bring roles and bindings to the rules and subjects of files
(component-helpers' auth/rbac/reconciliation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag
from sampan.kubectl.command_line.shared_flags import FilenameOptions, dry_run_flag, dry_run_strategy, filename_flags
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.manifests import manifest_objects
from sampan.kubectl.objects.targets import ResourceInfo, kind_for
from sampan.kubectl.printers import OutputOptions, output_flags

_GROUP = "rbac.authorization.k8s.io"
_PROTECTION = "rbac.authorization.kubernetes.io/autoupdate"
_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_RULE_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")

Value = dict[str, Any]


@dataclass(slots=True)
class Reconciliation:
    """How to reconcile a role or binding: the operation (empty, create, update or recreate), the resulting object, and
    the rules or subjects that were missing or extra."""

    operation: str
    value: Value
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    is_protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    files: FilenameOptions = filename_flags("to reconcile")
    remove_extra_permissions: bool = bool_flag(
        "--remove-extra-permissions", help="Remove rules of roles that the files do not have."
    )
    remove_extra_subjects: bool = bool_flag(
        "--remove-extra-subjects", help="Remove subjects of bindings that the files do not have."
    )
    dry_run: str = dry_run_flag()


@KubectlCommand.define("reconcile", ReconcileOptions)
def command(factory: Factory, options: ReconcileOptions) -> None:
    """Create roles and bindings of files, or add the rules and subjects that they lack.

    Other objects in the files are skipped.
    """
    files = options.files
    if not files:
        raise KubectlError("must specify one of -f and -k")
    if options.words:
        raise KubectlError("no arguments are allowed")
    dry_run = dry_run_strategy(options.dry_run)
    if dry_run == "server":
        raise KubectlError("--dry-run=server for command reconcile is not supported yet")
    operation = "reconciled (dry run)" if dry_run == "client" else "reconciled"
    printer = options.output.printer(operation=operation)
    for info in _local_infos(factory, files):
        if info.kind.group != _GROUP or info.kind.kind not in (*_ROLES, *_BINDINGS):
            continue
        result = _reconcile(factory, info, options, is_dry_run=dry_run == "client")
        printer.print(result.value)
        _report(result, info.kind.kind in _ROLES, options)


def _local_infos(factory: Factory, files: FilenameOptions) -> Iterator[ResourceInfo]:
    """Yield the roles and bindings of files. Objects of other API groups are skipped, and the default namespace is not
    added."""
    for manifest in manifest_objects(files, validates=False):
        if manifest.api_version.partition("/")[0] == _GROUP:
            kind = kind_for(factory.kinds, manifest)
            yield ResourceInfo(kind, manifest.namespace, manifest.name, manifest.value, manifest.source)


def _reconcile(factory: Factory, info: ResourceInfo, options: ReconcileOptions, *, is_dry_run: bool) -> Reconciliation:
    session = factory.session
    current: Value | None = None
    try:
        if info.namespace or not info.kind.is_namespaced:
            current = session.get(info.path)
    except ServerError as error:
        if not error.is_not_found:
            raise
    is_role = info.kind.kind in _ROLES
    removes = options.remove_extra_permissions if is_role else options.remove_extra_subjects
    decide = decide_role if is_role else decide_binding
    result = decide(current, info.value, removes_extra=removes)
    if is_dry_run or result.is_protected or not result.operation:
        return result
    if result.operation in ("create", "recreate"):
        if result.operation == "recreate":
            session.send("DELETE", info.path)
        _ensure_namespace(factory, info)
        result.value = session.send("POST", info.collection, body=result.value)
    else:
        result.value = session.send("PUT", info.path, body=result.value)
    return result


def _ensure_namespace(factory: Factory, info: ResourceInfo) -> None:
    """Create the namespace of an object, which the file must name."""
    if not info.kind.is_namespaced:
        return
    namespace = info.value["metadata"].get("namespace")
    if not namespace:
        raise KubectlError("resource name may not be empty")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    try:
        factory.session.send("POST", "/api/v1/namespaces", body=body)
    except ServerError as error:
        if error.error.reason not in ("AlreadyExists", "Forbidden"):
            raise


# -- decisions -------------------------------------------------------------------------------------------------------


def _is_protected(current: Value) -> bool:
    return bool(((current.get("metadata") or {}).get("annotations") or {}).get(_PROTECTION) == "false")


def _merge_metadata(current: Value, expected: Value) -> tuple[Value, bool]:
    """Return a copy of the current object with the labels and annotations of the expected one, and whether it
    differs."""
    merged, is_changed = deepcopy(current), False
    for name in ("labels", "annotations"):
        expected_values = (expected.get("metadata") or {}).get(name) or {}
        values = {**((current.get("metadata") or {}).get(name) or {}), **expected_values}
        if values and values != ((current.get("metadata") or {}).get(name) or {}):
            merged["metadata"][name], is_changed = values, True
    return merged, is_changed


def decide_role(current: Value | None, expected: Value, *, removes_extra: bool) -> Reconciliation:
    rules = expected.get("rules") or []
    if current is None:
        return Reconciliation("create", expected, [_rule_text(rule) for rule in rules])
    merged, is_changed = _merge_metadata(current, expected)
    current_rules = current.get("rules") or []
    missing = [rule for rule in _split_rules(rules) if not _is_covered(rule, current_rules)]
    extra = [rule for rule in _split_rules(current_rules) if not _is_covered(rule, rules)]
    if "aggregationRule" in expected and expected["aggregationRule"] != current.get("aggregationRule"):
        merged["aggregationRule"], is_changed = expected["aggregationRule"], True
    if removes_extra and (missing or extra):
        merged["rules"] = rules
    elif missing:
        merged["rules"] = [*current_rules, *missing]
    is_changed |= bool(missing) or (removes_extra and bool(extra))
    return Reconciliation(
        "update" if is_changed else "",
        merged,
        [_rule_text(rule) for rule in missing],
        [_rule_text(rule) for rule in extra],
        _is_protected(current),
    )


def _split_rules(rules: Iterable[Value]) -> list[Value]:
    """Split rules into rules with one verb, group, resource and name, or one verb and URL."""
    single: list[Value] = []
    for rule in rules:
        verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
        for group, resource, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), verbs):
            base = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
            single += [{**base, "resourceNames": [name]} for name in names] or [base]
        single += [
            {"verbs": [verb], "nonResourceURLs": [url]} for url in rule.get("nonResourceURLs") or () for verb in verbs
        ]
    return single


def _is_covered(rule: Value, owners: Iterable[Value]) -> bool:
    """Whether a rule in `owners` allows everything that `rule` allows, which has a single verb, group, resource and
    name."""
    return any(_covers(owner, rule) for owner in owners)


def _covers(owner: Value, rule: Value) -> bool:
    if not _has(owner.get("verbs"), rule["verbs"][0]):
        return False
    if "nonResourceURLs" in rule:
        url = rule["nonResourceURLs"][0]
        patterns = owner.get("nonResourceURLs") or ()
        return any(url == pattern or (pattern[-1:] == "*" and url.startswith(pattern[:-1])) for pattern in patterns)
    resource, names = rule["resources"][0], owner.get("resourceNames") or ()
    subresource = resource.partition("/")[2]
    has_resource = _has(owner.get("resources"), resource) or (
        bool(subresource) and f"*/{subresource}" in (owner.get("resources") or ())
    )
    has_name = not names or (bool(rule.get("resourceNames")) and rule["resourceNames"][0] in names)
    return _has(owner.get("apiGroups"), rule["apiGroups"][0]) and has_resource and has_name


def _has(values: Sequence[str] | None, value: str) -> bool:
    return "*" in (values or ()) or value in (values or ())


def decide_binding(current: Value | None, expected: Value, *, removes_extra: bool) -> Reconciliation:
    subjects = expected.get("subjects") or []
    if current is None:
        return Reconciliation("create", expected, [_subject_text(subject) for subject in subjects])
    if current.get("roleRef") != expected.get("roleRef"):
        return Reconciliation("recreate", expected, is_protected=_is_protected(current))
    merged, is_changed = _merge_metadata(current, expected)
    current_subjects = current.get("subjects") or []
    missing = [subject for subject in subjects if subject not in current_subjects]
    extra = [subject for subject in current_subjects if subject not in subjects]
    if removes_extra and (missing or extra):
        merged["subjects"] = subjects
    elif missing:
        merged["subjects"] = [*current_subjects, *missing]
    is_changed |= bool(missing) or (removes_extra and bool(extra))
    return Reconciliation(
        "update" if is_changed else "",
        merged,
        [_subject_text(subject) for subject in missing],
        [_subject_text(subject) for subject in extra],
        _is_protected(current),
    )


# -- report ----------------------------------------------------------------------------------------------------------


def _report(result: Reconciliation, is_role: bool, options: ReconcileOptions) -> None:
    if not result.operation:
        return
    caveat = f", but object opted out ({_PROTECTION}: false)" if result.is_protected else ""
    click.echo(f"\treconciliation required {result.operation}{caveat}", err=True)
    parts = "rules" if is_role else "subjects"
    removes = options.remove_extra_permissions if is_role else options.remove_extra_subjects
    for title, texts in ((f"missing {parts} added", result.missing), (f"extra {parts} removed", result.extra)):
        if texts and (title.startswith("missing") or removes):
            click.echo(f"\t{title}:", err=True)
            for text in texts:
                click.echo(f"\t\t{text}", err=True)


def _rule_text(rule: Value) -> str:
    names = {"apiGroups": "APIGroups", "nonResourceURLs": "NonResourceURLs"}
    fields = [
        f"{names.get(name, name[:1].upper() + name[1:])}:[{' '.join(rule.get(name) or ())}]" for name in _RULE_FIELDS
    ]
    return "{" + " ".join(fields) + "}"


def _subject_text(subject: Value) -> str:
    group = "APIGroup"
    return (
        f"{{Kind:{subject.get('kind', '')} {group}:{subject.get('apiGroup', '')} Name:{subject.get('name', '')} "
        f"Namespace:{subject.get('namespace', '')}}}"
    )
