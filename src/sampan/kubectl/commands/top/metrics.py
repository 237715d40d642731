"""Code that the commands of `kubectl top` share: flags, requests to the Metrics API, and the format of amounts
(kubectl's pkg/metricsutil).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.values.quantity import Quantity, from_json
from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.command_line.shared_flags import selector_flag
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.printers.table import print_table

RESOURCES = ("cpu", "memory")
SWAP = "swap"
_GROUP = "metrics.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_MIB = 1 << 20

Usage = Mapping[str, Quantity]


def find_path(session: Session) -> str:
    """Return the path of the first known version of the Metrics API that the server lists. Raise KubectlError if there
    is none."""
    for group in session.get("/apis").get("groups") or ():
        versions = [entry.get("version") for entry in group.get("versions") or ()] if group["name"] == _GROUP else []
        for version in versions:
            if version in _VERSIONS:
                return f"/apis/{_GROUP}/{version}"
    raise KubectlError("Metrics API not available")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions:
    """The flags that all commands of `kubectl top` share."""

    words: tuple[str, ...] = arguments()
    selector: str = selector_flag()
    sort_by: str = string_flag("--sort-by", metavar="cpu|memory", help="Sort by usage, highest first.")
    no_headers: bool = bool_flag("--no-headers", help="Print the table without the header line.")
    use_protocol_buffers: bool = bool_flag(
        "--use-protocol-buffers", default=True, hidden=True, help="Accepted without effect: requests use JSON."
    )
    show_swap: bool = bool_flag("--show-swap", help="Show the usage of swap memory.")


def selected_name(command: str, options: TopOptions) -> str:
    """Return the name of the object to show; empty for all objects. Raise UsageError for more than one name, and
    KubectlError for an invalid --sort-by."""
    words = options.words
    if len(words) > 1:
        raise UsageError(f"{command} [NAME | -l label]")
    if options.sort_by not in ("", *RESOURCES):
        raise KubectlError("--sort-by accepts only cpu or memory")
    return words[0] if words else ""


def shown_resources(options: TopOptions) -> tuple[str, ...]:
    return (*RESOURCES, SWAP) if options.show_swap else RESOURCES


def get_metrics(session: Session, path: str, name: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
    if name:
        if "/" in name or "%" in name:
            raise KubectlError(
                f"invalid resource name {quote_text(name)}: [may not contain '{'/' if '/' in name else '%'}']"
            )
        return [session.get(f"{path}/{name}")]
    return list(session.get(path, {key: value for key, value in query.items() if value}).get("items") or ())


def usage_of(values: Mapping[str, Any] | None) -> Usage:
    return {name: from_json(amount) for name, amount in (values or {}).items()}


def amount_text(resource: str, amount: Quantity | None) -> str:
    quantity = amount if amount is not None else Quantity()
    return f"{quantity.milli_value()}m" if resource == "cpu" else f"{quantity.value() // _MIB}Mi"


def sort_key(usage: Usage, sort_by: str) -> int:
    """Return a key that puts the highest usage first."""
    amount = usage.get(sort_by)
    return 0 if amount is None else -amount.milli_value()


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose lines end with spaces, as kubectl's do."""
    print_table([[*row, ""] for row in rows])
