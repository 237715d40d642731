"""`kubectl certificate`: approve or deny certificate signing requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.shared_options import filename_flags, filename_options, output_options, printer_of
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.targets import ResourceInfo

_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_ATTEMPTS = 11


@click.group("certificate", cls=KubectlGroup)
def command() -> None:
    """Approve or deny certificate signing requests."""


def _decision_command(name: str, condition: str, opposite: str, help: str) -> click.Command:
    @click.command(name, cls=KubectlCommand, help=help)
    @click.argument("words", nargs=-1)
    @output_options()
    @click.option("--force", is_flag=True, help=f"Update a request even if it is already {condition.lower()}.")
    @filename_options("to update")
    @click.pass_obj
    def decide(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
        printer = printer_of(options, operation=condition.lower())
        files = filename_flags(options)
        if not words and not files:
            raise KubectlError("one or more CSRs must be specified as <name> or -f <filename>")
        names = [f"certificatesigningrequests/{word}" for word in words if "/" not in word]
        names += [word for word in words if "/" in word]
        errors, count = ErrorAggregate(), 0
        builder = factory.resources(words=names, files=files, fetches_latest=True)
        for info in builder.infos(errors):
            with errors.collect():
                _decide(factory, info, condition, opposite, is_forced=options["force"])
                printer.print(info.value)
                count += 1
        if not count and not errors:
            click.echo("No resources found")
        errors.raise_any()

    return decide


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


command.add_command(
    _decision_command(
        "approve", "Approved", "Denied", "Approve certificate signing requests, so that a signer issues certificates."
    )
)
command.add_command(_decision_command("deny", "Denied", "Approved", "Deny certificate signing requests."))

__all__ = ["command"]
