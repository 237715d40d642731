"""Format the explanation of the scheduler: its decision, the filter results and the scores of nodes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api.values.ages import format_age
from sampan.kubectl.printers.table import table_lines

Explained = Mapping[str, Any]
"""`sampan.scheduler.explain.report.Explanation` decoded from JSON."""

WIDTH = 80
"""The width of the default output, in columns."""
_MAX_SHOWN_NODES = 20
"""The maximum number of nodes in the default output."""


def wrap(text: str, indent: str = "") -> list[str]:
    """Return the text wrapped to the width of the default output. Lines after the first have a hanging indentation."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def lines(explanation: Explained, *, is_wide: bool) -> list[str]:
    if not explanation.get("isFamiliar", True):
        return [f"no scheduler named {explanation['scheduler']} is reachable; only that scheduler can bind the pod"]
    output = [*_decision_lines(explanation), *_queue(explanation)]
    if explanation.get("waiting", {}).get("gate"):
        return output
    output += ["", _heading(explanation), ""]
    nodes = explanation.get("nodes", [])
    shown = nodes if is_wide else nodes[:_MAX_SHOWN_NODES]
    if any(node["fits"] for node in shown):
        output += _scores(explanation, [node for node in shown if node["fits"]], is_wide)
    refused = [node for node in shown if not node["fits"]]
    if refused:
        output += [""] * any(node["fits"] for node in shown) + _refusals(refused, is_wide)
        output += [] if is_wide else _shortage_lines(explanation, refused)
    output += _omission_lines(explanation, len(shown), is_wide)
    output += ["", *explanation["notes"]] if explanation.get("notes") else []
    return output + (_matrix(explanation, shown) if is_wide else [])


# -- decision --------------------------------------------------------------------------------------------------------


def _decision_lines(explanation: Explained) -> list[str]:
    decision = explanation.get("decision")
    if not decision:
        return []
    ago = format_age(max(0.0, explanation["time"] - decision["time"]))
    if decision.get("message"):
        texts = wrap(f"last tried {ago} ago (attempt {decision['attempt']}): {decision['message']}")
        if decision.get("nominated"):
            texts.append(f"nominated to {decision['nominated']}: pods of lower priority are being evicted there")
        return texts
    return [f"decided {ago} ago (attempt {decision['attempt']}): {decision['node']}"]


def _queue(explanation: Explained) -> list[str]:
    waiting = explanation.get("waiting")
    if not waiting:
        return [f"it would be gated: {explanation['gate']}"] if explanation.get("gate") else []
    since = format_age(max(0.0, explanation["time"] - waiting["since"]))
    if waiting.get("gate"):
        return [f"gated for {since}: {waiting['gate']}"]
    text = f"in the queue for {since} ({waiting['queue']})"
    plugins = waiting.get("plugins") or []
    if plugins:
        text += f"; retried when an event concerns the plugins {', '.join(plugins)}"
    return wrap(text)


def _heading(explanation: Explained) -> str:
    count, feasible, best = explanation.get("count", 0), explanation.get("feasible", 0), explanation.get("best")
    if explanation.get("node"):
        return f"If it were scheduled again now, {feasible} of {count} nodes are feasible" + f", best {best}" * bool(
            best
        )
    if not count:
        return "There are no nodes."
    if not feasible:
        return f"Now none of {count} nodes is feasible:"
    return f"Now {feasible} of {count} nodes are feasible, best {best}:"


# -- tables ----------------------------------------------------------------------------------------------------------


def _scores(explanation: Explained, nodes: Sequence[Mapping[str, Any]], is_wide: bool) -> list[str]:
    """Return a table of weighted scores. In the default output plugins that give all nodes the same score are
    omitted."""
    columns = [(entry["plugin"], entry["weight"]) for entry in nodes[0].get("scores", [])]
    if not is_wide and len(nodes) > 1:
        columns = [column for column in columns if len({_score(node, column[0]) for node in nodes}) > 1]
    head = ["NODE", "TOTAL", *(f"{plugin} x{weight}" for plugin, weight in columns)]
    rows = [
        [
            _mark_current_node(explanation, node["name"]),
            str(node.get("total", 0)),
            *(str(_score(node, entry) * by) for entry, by in columns),
        ]
        for node in nodes
    ]
    alike = [entry["plugin"] for entry in nodes[0].get("scores", []) if entry["plugin"] not in dict(columns)]
    table = list(table_lines([head, *rows]))
    if not is_wide and _width(table) > WIDTH:
        turned = list(table_lines([list(row) for row in zip(head, *rows, strict=True)]))
        table = turned if _width(turned) < _width(table) else table
    return [*table, *(wrap(f"same score on all nodes: {', '.join(alike)}") if alike else [])]


def _width(table: Sequence[str]) -> int:
    return max(len(line.rstrip()) for line in table)


def _score(node: Mapping[str, Any], plugin: str) -> int:
    return next((int(score["score"]) for score in node.get("scores", ()) if score["plugin"] == plugin), 0)


def _mark_current_node(explanation: Explained, name: str) -> str:
    return f"{name} *" if name == explanation.get("node") else name


def _refusals(nodes: Sequence[Mapping[str, Any]], is_wide: bool) -> list[str]:
    """Return a table of rejections. In the default output nodes with the same rejections share a row."""
    rows = [["NODE", "REJECTED BY", "REASON", *(["EVICTING PODS"] * is_wide)]]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        groups.setdefault(node["name"] if is_wide else repr(node.get("refusals")), []).append(node)
    for alike in groups.values():
        name = alike[0]["name"] + (f" and {len(alike) - 1} more" if len(alike) > 1 else "")
        for refusal in alike[0].get("refusals", ()):
            for reason in refusal["reasons"]:
                reason = f"{reason}{_describe_shortage(alike[0], reason)}" if is_wide else reason
                may = "would not help" if refusal.get("isFinal") else "may help"
                rows.append([name, refusal["plugin"], reason, *([may] * is_wide)])
                name = ""
    return list(table_lines(rows))


def _shortage_lines(explanation: Explained, refused: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the amounts behind the reasons of NodeResourcesFit, one line for each resource. Of several nodes, the one
    that has most left is shown."""
    reasons = {reason for node in refused for refusal in node.get("refusals", ()) for reason in refusal["reasons"]}
    texts = [
        f"asks {_format_amount(entry, 'request')} {entry['resource']}; {entry['node']} {_describe_capacity(entry)}"
        + ("; others that lack it have no more left" if explanation.get("count", 0) > 1 else "")
        for entry in explanation.get("shortages", ())
        if _reason_of(entry) in reasons
    ]
    return ["", *(line for text in texts for line in wrap(text))] if texts else []


def _describe_shortage(node: Mapping[str, Any], reason: str) -> str:
    """Return the amounts of a node behind a reason; empty for a reason that is no shortage."""
    entry = next((entry for entry in node.get("shortages", ()) if _reason_of(entry) == reason), None)
    return f": asks {_format_amount(entry, 'request')}, {_describe_capacity(entry)}" if entry is not None else ""


def _describe_capacity(shortage: Mapping[str, Any]) -> str:
    return f"has {_format_amount(shortage, 'allocatable')}, {_format_amount(shortage, 'requested')} requested"


def _reason_of(shortage: Mapping[str, Any]) -> str:
    return "Too many pods" if shortage["resource"] == "pods" else f"Insufficient {shortage['resource']}"


_BINARY = ("memory", "ephemeral-storage", "hugepages-")
_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def _format_amount(shortage: Mapping[str, Any], field: str) -> str:
    """Return an amount of a shortage as a quantity with four digits."""
    amount, resource = float(shortage[field]), shortage["resource"]
    if resource == "cpu":
        return f"{amount / 1000:.4g}"
    if not resource.startswith(_BINARY):
        return f"{amount:.0f}"
    power = min(int(math.log(amount, 1024)), len(_SUFFIXES) - 1) if amount >= 1 else 0
    return f"{amount / 1024**power:.4g}{_SUFFIXES[power]}"


def _omission_lines(explanation: Explained, shown: int, is_wide: bool) -> list[str]:
    texts = []
    if explanation.get("count", 0) > shown:
        more = "" if is_wide else "; -o wide shows more, -o json shows all"
        texts.append(f"… and {explanation['count'] - shown} more nodes{more}")
    refusing = {refusal["plugin"] for node in explanation.get("nodes", ()) for refusal in node.get("refusals", ())}
    passed = [plugin for plugin in explanation.get("filters", ()) if plugin not in refusing]
    if passed:
        texts += ["", *wrap(f"plugins that reject no node: {', '.join(passed)}")]
    return texts


def _matrix(explanation: Explained, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table with the result of each filter for each node."""
    filters = explanation.get("filters", [])
    if not filters or not nodes:
        return []
    rows = [["NODE", *filters]]
    for node in nodes:
        refusing = {refusal["plugin"] for refusal in node.get("refusals", ())}
        rows.append([node["name"], *("no" if plugin in refusing else "ok" for plugin in filters)])
    skipped = explanation.get("skipped", [])
    return ["", *table_lines(rows), *([f"plugins that did not apply: {', '.join(skipped)}"] if skipped else [])]
