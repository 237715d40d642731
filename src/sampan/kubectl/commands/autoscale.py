"""`kubectl autoscale`: create a HorizontalPodAutoscaler for a workload."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sampan.api.values import quantity
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_types import UnknownResourceType
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, int_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    filename_flags,
    record_flag,
    save_config_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_UNITS = {"cpu": "m", "memory": "Mi"}
_DEPRECATED = (
    "Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or '500m' for milliCPU)."
)
_is_number = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?").fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleOptions:
    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    minimum: int = int_flag("--min", default=-1, metavar="N", help="Minimum number of pods.")
    maximum: int = int_flag("--max", default=-1, required=True, metavar="N", help="Largest number of pods.")
    cpu_percent: int = int_flag(
        "--cpu-percent",
        default=-1,
        metavar="N",
        message=_DEPRECATED,
        help="Target of average CPU usage, in percent of the requests.",
    )
    cpu: str = string_flag(
        "--cpu", metavar="N%|QUANTITY", help="Target of CPU usage: a percentage of requests, or CPU."
    )
    memory: str = string_flag("--memory", metavar="N%|QUANTITY", help="Target of memory usage.")
    hpa_name: str = string_flag("--name", metavar="NAME", help="Name of the autoscaler. Default: that of the object.")
    dry_run: str = dry_run_flag()
    files: FilenameOptions = filename_flags("to scale")
    save_config: bool = save_config_flag()
    field_manager: str = field_manager_flag("kubectl-autoscale")


@KubectlCommand.define("autoscale", AutoscaleOptions)
def command(factory: Factory, options: AutoscaleOptions) -> None:
    """Create a horizontal pod autoscaler for a deployment, replica set, stateful set or replication controller."""
    dry_run = dry_run_strategy(options.dry_run)
    _check_flags(options)
    printer = ResultPrinter(options.output, dry_run)
    errors, count = ErrorAggregate(), 0
    namespace = factory.namespace if factory.has_namespace_flag else ""
    for info in ResourceBuilder(
        factory, ResourceSelection(words=options.words), ResourceSource(files=options.files)
    ).infos(errors):
        with errors.collect():
            if "scale" not in info.kind.subresources:
                raise KubectlError(
                    f"cannot autoscale a {info.kind.kind}: could not find scale subresource for {info.kind} in "
                    "discovery information"
                )
            value = with_change_cause(autoscaler(info, namespace, options), options.record)
            if dry_run == "client":
                printer.print(value, "created")
            else:
                value = with_last_applied(value) if options.save_config else value
                printer.print(_create(factory, value, dry_run, options), "autoscaled")
            count += 1
    errors.raise_any()
    if not count:
        raise KubectlError("no objects passed to autoscale")


def _create(factory: Factory, value: dict[str, Any], dry_run: str, options: AutoscaleOptions) -> dict[str, Any]:
    """Create the autoscaler, in the old version of the API if the server rejects it and the flags allow that."""
    writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
    name = value["metadata"]["name"]
    try:
        kind = factory.kinds.find_by_kind("autoscaling/v2", "HorizontalPodAutoscaler")
        return writer.create(ResourceInfo(kind, factory.namespace, name), value)
    except (ServerError, UnknownResourceType):
        problem = _incompatibility(options)
    if problem:
        raise KubectlError(
            f"failed to create autoscaling/v2 HPA and the configuration is incompatible with autoscaling/v1: {problem}"
        )
    kind = factory.kinds.find_by_kind("autoscaling/v1", "HorizontalPodAutoscaler")
    spec = {key: part for key, part in value["spec"].items() if key != "metrics"}
    if options.cpu_percent >= 0:
        spec["targetCPUUtilizationPercentage"] = options.cpu_percent
    old = {**value, "apiVersion": "autoscaling/v1", "spec": spec, "status": {}}
    return writer.create(ResourceInfo(kind, factory.namespace, name), old)


def _incompatibility(options: AutoscaleOptions) -> str:
    """Return why the old version of the API cannot express the flags; empty if it can."""
    try:
        target = metric_target(options.cpu, "cpu")
    except KubectlError as error:
        return error.message
    is_percentage = options.cpu_percent >= 0 or target["type"] == "Utilization"
    return "" if is_percentage and not options.memory else "%!w(<nil>)"


def _check_flags(options: AutoscaleOptions) -> None:
    minimum, maximum = options.minimum, options.maximum
    if maximum < 1:
        raise KubectlError(f"--max=MAXPODS is required and must be at least 1, max: {maximum}")
    if maximum < minimum:
        raise KubectlError(f"--max=MAXPODS must be larger or equal to --min=MINPODS, max: {maximum}, min: {minimum}")
    if options.cpu_percent > 0 and options.cpu:
        raise KubectlError("--cpu-percent and --cpu are mutually exclusive")


def autoscaler(info: ResourceInfo, namespace: str, options: AutoscaleOptions) -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler of a workload."""
    metadata = {"name": options.hpa_name or info.name} | ({"namespace": namespace} if namespace else {})
    target = {"kind": info.kind.kind, "name": info.name, "apiVersion": info.kind.api_version}
    spec: dict[str, Any] = {"scaleTargetRef": target}
    if options.minimum > 0:
        spec["minReplicas"] = options.minimum
    spec["maxReplicas"] = options.maximum
    metrics: list[dict[str, Any]] = []
    if options.cpu_percent > 0:
        metrics.append(_metric("cpu", {"type": "Utilization", "averageUtilization": options.cpu_percent}))
    targets = (("cpu", options.cpu), ("memory", options.memory))
    metrics += [_metric(name, metric_target(text, name)) for name, text in targets if text]
    if metrics:
        spec["metrics"] = metrics
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": metadata,
        "spec": spec,
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }


def _metric(name: str, target: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def metric_target(text: str, resource: str) -> dict[str, Any]:
    """Parse a percentage, a quantity, or a number of millicores or mebibytes."""
    text = text.strip()
    if not text:
        raise KubectlError("empty input")
    if text.endswith("%"):
        number = text[:-1]
        if not re.fullmatch(r"\+?[0-9]{1,10}", number) or int(number) >= 1 << 31:
            raise KubectlError(f"invalid percentage value: {number}")
        return {"type": "Utilization", "averageUtilization": int(number)}
    if _is_number(text):
        text = f"{float(text):g}{_UNITS[resource]}"
    try:
        return {"type": "AverageValue", "averageValue": quantity.canonical(text)}
    except ValueError:
        raise KubectlError(f"invalid resource {resource} value: {text}") from None
