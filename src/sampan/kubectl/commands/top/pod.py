"""`kubectl top pod`: show the resource usage of pods."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.api.values import times
from sampan.api.values.quantity import Quantity
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import bool_flag
from sampan.kubectl.command_line.shared_flags import all_namespaces_flag, field_selector_flag
from sampan.kubectl.commands.top import metrics
from sampan.kubectl.commands.top.metrics import Usage, amount_text, sort_key, usage_of
from sampan.kubectl.errors import KubectlError

_CREATION_DELAY_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOptions(metrics.TopOptions):
    field_selector: str = field_selector_flag()
    containers: bool = bool_flag("--containers", help="Show the usage of each container.")
    all_namespaces: bool = all_namespaces_flag()
    has_sum: bool = bool_flag("--sum", help="Print the sum of the usage in the last line.")


@KubectlCommand.define("pod", PodOptions, aliases=("pods", "po"))
def command(factory: Factory, options: PodOptions) -> None:
    """Show the CPU and memory usage of pods."""
    name = metrics.selected_name("pod", options)
    if name and (options.selector or options.field_selector):
        raise KubectlError("only one of NAME or selector can be provided")
    path = metrics.find_path(factory.session)
    scope = "" if options.all_namespaces else f"/namespaces/{factory.namespace}"
    query = {"labelSelector": options.selector, "fieldSelector": options.field_selector}
    labels = {"labelSelector": options.selector}
    listed = metrics.get_metrics(factory.session, f"{path}{scope}/pods", name, labels)
    if listed and options.field_selector:
        pods = metrics.get_metrics(factory.session, f"/api/v1{scope}/pods", "", query)
        selected = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
        listed = [item for item in listed if (item["metadata"]["namespace"], item["metadata"]["name"]) in selected]
    if not listed:
        _check_pods(factory, query)
        suffix = "" if options.all_namespaces else f" in {factory.namespace} namespace."
        click.echo(f"No resources found{suffix}", err=True)
        return
    _print_pods(listed, options)


def _check_pods(factory: Factory, query: Mapping[str, str]) -> None:
    """Raise KubectlError if there are pods without metrics."""
    pods = metrics.get_metrics(factory.session, f"/api/v1/namespaces/{factory.namespace}/pods", "", query)
    for pod in pods:
        age_s = time.time() - times.parse_time(pod["metadata"]["creationTimestamp"])
        if age_s > _CREATION_DELAY_S:
            raise KubectlError(
                f"Metrics not available for pod {pod['metadata']['namespace']}/{pod['metadata']['name']}, "
                f"age: {int(age_s // 60)}m{age_s % 60:.9f}s"
            )
    if pods:
        raise KubectlError("metrics not available yet")


def _print_pods(listed: list[dict[str, Any]], options: PodOptions) -> None:
    resources = metrics.shown_resources(options)
    titles = ["NAMESPACE"] * options.all_namespaces + ["POD"] * options.containers + ["NAME", "CPU(cores)"]
    titles += ["MEMORY(bytes)"] + ["SWAP(bytes)"] * options.show_swap
    rows = [] if options.no_headers else [titles]
    sort_by, total = options.sort_by, dict.fromkeys(resources, Quantity())
    entries = [(item, _pod_usage(item, resources)) for item in listed]
    entries.sort(key=lambda entry: (sort_key(entry[1], sort_by), *_names(entry[0], options)))
    for item, usage in entries:
        total = {resource: total[resource] + usage[resource] for resource in resources}
        prefix = [item["metadata"]["namespace"]] * options.all_namespaces
        if not options.containers:
            rows.append([*prefix, item["metadata"]["name"], *_amounts(usage, resources)])
            continue
        containers = [(entry["name"], usage_of(entry.get("usage"))) for entry in item.get("containers") or ()]
        containers.sort(key=lambda entry: (sort_key(entry[1], sort_by), entry[0]))
        rows += [[*prefix, item["metadata"]["name"], name, *_amounts(used, resources)] for name, used in containers]
    if options.has_sum:
        width = len(metrics.RESOURCES) + 1 + options.show_swap
        if not options.no_headers:
            width += options.all_namespaces + options.containers
        rows.append([*[""] * (width - 2), "________", "________"])
        rows.append([*[""] * (width - 2), *_amounts(total, resources)])
    metrics.print_rows(rows)


def _names(item: dict[str, Any], options: PodOptions) -> tuple[str, str]:
    metadata = item["metadata"]
    return (metadata["namespace"] if options.all_namespaces else "", metadata["name"])


def _pod_usage(item: dict[str, Any], resources: tuple[str, ...]) -> dict[str, Quantity]:
    total = dict.fromkeys(resources, Quantity())
    for container in item.get("containers") or ():
        usage = usage_of(container.get("usage"))
        total = {resource: total[resource] + usage.get(resource, Quantity()) for resource in resources}
    return total


def _amounts(usage: Usage, resources: tuple[str, ...]) -> list[str]:
    return [amount_text(resource, usage.get(resource)) for resource in resources]
