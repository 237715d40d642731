"""`kubectl certificate`: approve or deny certificate signing requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.flags import arguments, bool_flag
from sampan.kubectl.command_line.shared_flags import FilenameOptions, filename_flags
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.targets import (
    ResourceBuilder,
    ResourceFetch,
    ResourceInfo,
    ResourceSelection,
    ResourceSource,
)
from sampan.kubectl.printers import OutputOptions, output_flags

_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_ATTEMPTS = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    force: bool = bool_flag("--force", help="Update a request even if it is already approved.")
    files: FilenameOptions = filename_flags("to update")


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyOptions(ApproveOptions):
    force: bool = bool_flag("--force", help="Update a request even if it is already denied.")


@KubectlCommand.define("approve", ApproveOptions)
def approve(factory: Factory, options: ApproveOptions) -> None:
    """Approve certificate signing requests, so that a signer issues certificates."""
    _decide_all(factory, options, "Approved", "Denied")


@KubectlCommand.define("deny", DenyOptions)
def deny(factory: Factory, options: DenyOptions) -> None:
    """Deny certificate signing requests."""
    _decide_all(factory, options, "Denied", "Approved")


def _decide_all(factory: Factory, options: ApproveOptions, condition: str, opposite: str) -> None:
    printer = options.output.printer(operation=condition.lower())
    words, files = options.words, options.files
    if not words and not files:
        raise KubectlError("one or more CSRs must be specified as <name> or -f <filename>")
    names = [f"certificatesigningrequests/{word}" for word in words if "/" not in word]
    names += [word for word in words if "/" in word]
    errors, count = ErrorAggregate(), 0
    builder = ResourceBuilder(
        factory, ResourceSelection(words=names), ResourceSource(files=files), ResourceFetch(fetches_latest=True)
    )
    for info in builder.infos(errors):
        with errors.collect():
            _decide(factory, info, condition, opposite, is_forced=options.force)
            printer.print(info.value)
            count += 1
    if not count and not errors:
        click.echo("No resources found")
    errors.raise_any()


def _decide(factory: Factory, info: ResourceInfo, condition: str, opposite: str, *, is_forced: bool) -> None:
    if (info.kind.group, info.kind.kind) != ("certificates.k8s.io", "CertificateSigningRequest"):
        qualified = f"{info.kind.kind}.{info.kind.group}" if info.kind.group else info.kind.kind
        raise KubectlError(f"can only handle CertificateSigningRequest.certificates.k8s.io objects, got {qualified}")
    for attempt in range(_ATTEMPTS):
        request = factory.session.get(f"{_PATH}/{info.name}")
        has_condition = _add_condition(request, condition, opposite)
        if has_condition and not is_forced:
            return
        try:
            factory.session.send("PUT", f"{_PATH}/{info.name}/approval", body=request)
            return
        except ServerError as error:
            if error.error.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                raise


def _add_condition(request: dict[str, Any], condition: str, opposite: str) -> bool:
    """Add the condition to a request. Return whether it was there already."""
    conditions = request.setdefault("status", {}).setdefault("conditions", [])
    types = [entry.get("type") for entry in conditions]
    if opposite in types:
        raise KubectlError(f'certificate signing request "{request["metadata"]["name"]}" is already {opposite}')
    if condition in types:
        return True
    verb = "approve" if condition == "Approved" else "deny"
    conditions.append(
        {
            "type": condition,
            "status": "True",
            "reason": f"Kubectl{verb.capitalize()}",
            "message": f"This CSR was {condition.lower()} by kubectl certificate {verb}.",
            "lastUpdateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )
    return False


command = KubectlGroup("certificate", help="Approve or deny certificate signing requests.", commands=[approve, deny])
