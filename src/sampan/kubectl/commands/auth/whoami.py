"""`kubectl auth whoami`: show who the current user is for the server."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import output_options, printer_of
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.printers.table import print_table

_VERSIONS = ("v1", "v1beta1", "v1alpha1")


@click.command("whoami", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the name, groups and other attributes that the server sees for the current user."""
    printer = printer_of(options, is_sorted=False) if options["output"] or options["template"] else None
    review = _review(factory)
    if printer is not None:
        first = {key: review.get(key) for key in ("kind", "apiVersion")}
        printer.print({**first, **review})
        return
    user = (review.get("status") or {}).get("userInfo") or {}
    rows = [["ATTRIBUTE", "VALUE"]]
    rows += [
        [title, str(user[field])] for title, field in (("Username", "username"), ("UID", "uid")) if user.get(field)
    ]
    if user.get("groups"):
        rows.append(["Groups", f"[{' '.join(user['groups'])}]"])
    rows += [[f"Extra: {key}", f"[{' '.join(values)}]"] for key, values in sorted((user.get("extra") or {}).items())]
    print_table(rows)


def _review(factory: Factory) -> dict[str, Any]:
    for version in _VERSIONS:
        body = {"apiVersion": f"authentication.k8s.io/{version}", "kind": "SelfSubjectReview"}
        try:
            review: dict[str, Any] = factory.session.send(
                "POST", f"/apis/authentication.k8s.io/{version}/selfsubjectreviews", body=body
            )
            return review
        except ServerError as error:
            if error.error.reason == "Forbidden":
                raise KubectlError(
                    "the selfsubjectreviews API is not enabled in the cluster or you do not have permission to call it"
                ) from None
            if not error.is_not_found:
                raise
    raise KubectlError("the selfsubjectreviews API is not enabled in the cluster")
