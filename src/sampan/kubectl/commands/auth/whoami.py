"""`kubectl auth whoami`: show who the current user is for the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.table import print_table

_VERSIONS = ("v1", "v1beta1", "v1alpha1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoamiOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()


@KubectlCommand.define("whoami", WhoamiOptions)
def command(factory: Factory, options: WhoamiOptions) -> None:
    """Show the name, groups and other attributes that the server sees for the current user."""
    printer = options.output.printer(is_sorted=False) if options.output.format or options.output.template else None
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
