"""`kubectl auth can-i`: check whether an action is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.describers.compact_rules import compact_rules, resource_text
from sampan.kubectl.errors import KubectlError, SilentExit
from sampan.kubectl.printers.table import print_table

_REVIEWS = "/apis/authorization.k8s.io/v1"
_RESOURCE_VERBS = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind"}
    | {"impersonate", "*", "approve", "sign", "escalate", "attest"}
)
_URL_VERBS = frozenset(["get", "put", "post", "head", "options", "delete", "patch", "*"])
_NOT_DISCOVERABLE = frozenset({"users", "groups"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CanIOptions:
    words: tuple[str, ...] = arguments()
    all_namespaces: bool = bool_flag("-A", "--all-namespaces", help="Check the action in all namespaces.")
    quiet: bool = bool_flag("-q", "--quiet", help="Print nothing; the exit code is the result.")
    subresource: str = string_flag("--subresource", metavar="NAME", help="Subresource, such as log or scale.")
    lists: bool = bool_flag("--list", help="List all allowed actions.")
    no_headers: bool = bool_flag("--no-headers", help="Print the list without the header line.")


@KubectlCommand.define("can-i", CanIOptions)
def command(factory: Factory, options: CanIOptions) -> None:
    """Check whether an action is allowed.

    The exit code is 0 if it is, and 1 if it is not.
    """
    if options.lists:
        if options.words:
            raise KubectlError("list option must be specified with no arguments")
        if options.quiet or options.all_namespaces or options.subresource:
            raise KubectlError(
                "list option can't be specified with neither quiet, all-namespaces nor subresource options"
            )
        _list_access(factory, has_headers=not options.no_headers)
        return
    if len(options.words) != 2:
        raise KubectlError(
            "you must specify two arguments: verb resource or verb resource/resourceName.\n"
            "See 'kubectl auth can-i -h' for help and examples."
        )
    spec = _review_spec(factory, options.words[0], options.words[1], options)
    if options.no_headers:
        raise KubectlError("--no-headers cannot be set without --list specified")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    status = factory.session.send("POST", f"{_REVIEWS}/selfsubjectaccessreviews", body=review).get("status") or {}
    if not options.quiet:
        click.echo(_result_text(status))
    if not status.get("allowed"):
        raise SilentExit(1)


def _result_text(status: Mapping[str, Any]) -> str:
    if status.get("allowed"):
        return "yes"
    return " - ".join(["no", *(status[field] for field in ("reason", "evaluationError") if status.get(field))])


def _review_spec(factory: Factory, verb: str, subject: str, options: CanIOptions) -> dict[str, Any]:
    if subject.startswith("/"):
        if options.subresource:
            raise KubectlError("--subresource can not be used with NonResourceURL")
        if verb not in _URL_VERBS:
            _warn(f"verb '{verb}' is not a known verb")
        return {"nonResourceAttributes": {"verb": verb, "path": subject}}
    word, _, name = subject.partition("/")
    kind = _resource_type(factory, word)
    if kind is not None and not options.all_namespaces and not kind.is_namespaced:
        group = f" in group '{kind.group}'" if kind.group else ""
        _warn(f"resource '{kind.plural}' is not namespace scoped{group}")
    if not options.all_namespaces and verb not in _RESOURCE_VERBS:
        _warn(f"verb '{verb}' is not a known verb")
    attributes = {
        "namespace": "" if options.all_namespaces else factory.namespace,
        "verb": verb,
        "group": kind.group if kind is not None else "",
        "resource": kind.plural if kind is not None else word,
        "subresource": options.subresource,
        "name": name,
    }
    return {"resourceAttributes": {key: value for key, value in attributes.items() if value}}


def _resource_type(factory: Factory, word: str) -> ResourceType | None:
    """Return the type of a word; None with a warning if the server has no such type."""
    if word == "*":
        return None
    try:
        return factory.kinds.find_by_name(word.lower())
    except KubectlError:
        resource, _, group = word.lower().partition(".")
        if word.lower() not in _NOT_DISCOVERABLE:
            _warn(f"the server doesn't have a resource type '{resource}'" + (f" in group '{group}'" if group else ""))
        return None


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}\n", err=True)


def _list_access(factory: Factory, *, has_headers: bool) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": factory.namespace},
    }
    status = factory.session.send("POST", f"{_REVIEWS}/selfsubjectrulesreviews", body=review).get("status") or {}
    if status.get("incomplete"):
        click.echo(f"Warning: the list may be incomplete: {status.get('evaluationError', '')}", err=True)
    rules = [*(status.get("resourceRules") or ()), *(status.get("nonResourceRules") or ())]
    rows = [["Resources", "Non-Resource URLs", "Resource Names", "Verbs"]] if has_headers else []
    for rule in compact_rules(rules):
        lists = [f"[{' '.join(rule[field])}]" for field in ("nonResourceURLs", "resourceNames", "verbs")]
        rows.append([resource_text(rule), *lists])
    print_table(rows)
