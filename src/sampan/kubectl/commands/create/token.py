"""`kubectl create token`: a token of a service account."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import duration_flag, string_array_flag, string_flag
from sampan.kubectl.commands.create.generator import NameOptions, only_name
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_BOUND_KINDS = ("Node", "Pod", "Secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTokenOptions(NameOptions):
    output: OutputOptions = output_flags()
    audience: tuple[str, ...] = string_array_flag(
        "--audience", metavar="NAME", help="Audience of the token; repeatable."
    )
    duration_s: float = duration_flag("--duration", default_s=0.0, metavar="TIME", help="Lifetime of the token.")
    bound_object_kind: str = string_flag(
        "--bound-object-kind", metavar="KIND", help="Kind of the object that the token is bound to."
    )
    bound_object_name: str = string_flag("--bound-object-name", metavar="NAME", help="Name of that object.")
    bound_object_uid: str = string_flag(
        "--bound-object-uid", metavar="UID", help="UID of that object. Default: that of its name."
    )


@KubectlCommand.define("token", CreateTokenOptions)
def command(factory: Factory, options: CreateTokenOptions) -> None:
    """Request a token of a service account."""
    name = only_name(options)
    printer = ResultPrinter(options.output, "none")
    request = token_request(name, options)
    path = f"/api/v1/namespaces/{factory.namespace}/serviceaccounts/{name}/token"
    try:
        response = factory.session.send("POST", path, body=request)
    except ServerError as error:
        raise KubectlError(f"failed to create token: {error.error.message}") from None
    token = (response.get("status") or {}).get("token")
    if not token:
        raise KubectlError("failed to create token: no token in server response")
    if options.output.format or options.output.template:
        printer.print(response, "created")
    else:
        click.echo(token, nl=sys.stdout.isatty())


def token_request(name: str, options: CreateTokenOptions) -> dict[str, Any]:
    """Return the TokenRequest of the flags."""
    kind, duration_s = options.bound_object_kind, options.duration_s
    if not name:
        raise KubectlError("service account name is required")
    if duration_s < 0:
        raise KubectlError("--duration must be greater than or equal to 0")
    if duration_s != int(duration_s):
        raise KubectlError("--duration cannot be expressed in units less than seconds")
    if "" in options.audience:
        raise KubectlError("--audience must not be an empty string")
    spec: dict[str, Any] = {"audiences": list(options.audience)}
    if duration_s:
        spec["expirationSeconds"] = int(duration_s)
    if not kind:
        for part, value in (("name", options.bound_object_name), ("uid", options.bound_object_uid)):
            if value:
                raise KubectlError(f"--bound-object-{part} can only be set if --bound-object-kind is provided")
    elif kind not in _BOUND_KINDS:
        raise KubectlError(f"supported --bound-object-kind values are {', '.join(_BOUND_KINDS)}")
    elif not options.bound_object_name:
        raise KubectlError("--bound-object-name is required if --bound-object-kind is provided")
    else:
        reference = {"kind": kind, "apiVersion": "v1", "name": options.bound_object_name}
        uid = options.bound_object_uid
        spec["boundObjectRef"] = reference | ({"uid": uid} if uid else {})
    return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
