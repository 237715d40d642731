"""Deletion of objects and the wait for its end, for `delete`, `replace --force`, `apply --prune` and `run --rm`
(`kubectl/pkg/cmd/delete`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_bool
from sampan.kubectl.command_line.flags import bool_flag, duration_flag, flag_group, int_flag, optional_string_flag
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.targets import ResourceInfo

_POLICIES = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
_MAX_WAIT_S = 168 * 3600.0
_POLL_S = 0.1


def cascade_flag() -> str:
    return optional_string_flag(
        "--cascade",
        default="background",
        implied="background",
        metavar="background|orphan|foreground",
        help="What happens to the dependents of deleted objects.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOptions:
    """How objects are deleted."""

    cascade: str = cascade_flag()
    force: bool = bool_flag("--force", help="Remove objects at once, without graceful deletion.")
    grace_period: int = int_flag(
        "--grace-period",
        default=-1,
        metavar="SECONDS",
        help="Time for graceful termination; a negative time stands for that of the object, 0 needs --force.",
    )
    timeout_s: float = duration_flag(
        "--timeout",
        default_s=0.0,
        metavar="TIME",
        help="How long to wait for the deletion; 0 for as long as it takes.",
    )
    wait: bool = bool_flag("--wait", help="Wait until the objects are gone.")


def deletion_flags(*, waits: bool) -> DeletionOptions:
    """Declare --cascade, --force, --grace-period, --timeout and --wait."""
    return flag_group(DeletionOptions, defaults={"wait": waits})


def cascade_policy(text: str) -> str:
    """Return the propagation policy of --cascade, whose old form is a boolean."""
    if text in _POLICIES:
        return _POLICIES[text]
    try:
        name = "background" if parse_bool(text) else "orphan"
    except ValueSyntaxError:
        allowed = 'Must be "background", "foreground", or "orphan"'
        raise KubectlError(f"invalid cascade value ({text}). {allowed}") from None
    shown = f"--cascade={text} is deprecated (boolean value) and can be replaced with --cascade={name}."
    click.echo(f"warning: {shown}", err=True)
    return _POLICIES[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Deletes objects with the options of a command and reports each."""

    session: Session
    policy: str = "Background"
    grace_period: int = -1
    dry_run: str = "none"
    is_short: bool = False
    is_quiet: bool = False

    def delete(self, info: ResourceInfo) -> str:
        """Delete an object and return its UID; empty if the response has no UID. With a client-side dry run, only
        report the deletion."""
        uid = ""
        if self.dry_run != "client":
            try:
                response = self.session.send("DELETE", info.path, body=self.request_body())
            except ServerError as error:
                raise error.add_context(f'error when deleting "{info.source}"') if info.source else error from None
            details = response.get("details") or {} if response.get("kind") == "Status" else response["metadata"]
            uid = str(details.get("uid") or "")
        if not self.is_quiet:
            self.report(info)
        return uid

    def request_body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": self.policy}
        body |= {"gracePeriodSeconds": self.grace_period} if self.grace_period >= 0 else {}
        return body | ({"dryRun": ["All"]} if self.dry_run == "server" else {})

    def report(self, info: ResourceInfo) -> None:
        if self.is_short:
            click.echo(info.qualified_name)
            return
        operation = "force deleted" if self.grace_period == 0 else "deleted"
        operation += f" from {info.namespace} namespace" if info.kind.is_namespaced else ""
        operation += {"client": " (dry run)", "server": " (server dry run)"}.get(self.dry_run, "")
        click.echo(f'{info.kind.qualified} "{info.name}" {operation}')


def wait_until_deleted(
    session: Session, deleted: Iterable[tuple[ResourceInfo, str]], timeout_s: float, errors: ErrorAggregate
) -> None:
    """Wait until each object is gone, or another one with its name has replaced it. A timeout is added to `errors`."""
    deadline = time.monotonic() + (timeout_s or _MAX_WAIT_S)
    for info, uid in deleted:
        delay_s = 0.02
        while is_present(session, info, uid):
            if time.monotonic() > deadline:
                errors.add(KubectlError(f"timed out waiting for the condition on {info.kind.plural}/{info.name}"))
                break
            time.sleep(delay_s)
            delay_s = min(delay_s * 2, _POLL_S)


def is_present(session: Session, info: ResourceInfo, uid: str) -> bool:
    """Whether the object with this UID exists; an object that may not be read counts as gone."""
    try:
        metadata: Mapping[str, Any] = session.get(info.path)["metadata"]
    except ServerError as error:
        if error.is_not_found or error.error.reason in ("Forbidden", "MethodNotAllowed"):
            return False
        raise
    return not uid or metadata.get("uid") == uid
