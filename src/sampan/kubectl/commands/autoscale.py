"""`kubectl autoscale`: create a HorizontalPodAutoscaler for a workload."""

from __future__ import annotations

import re
from typing import Any

import click

from sampan.api.values import quantity
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.resource_types import UnknownResourceType
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import DeprecatedOption
from sampan.kubectl.command_line.shared_options import (
    dry_run_of,
    dry_run_option,
    field_manager_option,
    filename_flags,
    filename_options,
    output_options,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import (
    ObjectWriter,
    ResultPrinter,
    record_option,
    save_config_option,
    with_change_cause,
)
from sampan.kubectl.objects.targets import ResourceInfo

_UNITS = {"cpu": "m", "memory": "Mi"}
_DEPRECATED = (
    "Use --cpu with percentage or resource quantity format (e.g., '70%' for utilization or '500m' for milliCPU)."
)
_is_number = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?").fullmatch


@click.command("autoscale", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@record_option()
@output_options()
@click.option("--min", "minimum", type=click.INT, default=-1, metavar="N", help="Minimum number of pods.")
@click.option(
    "--max", "maximum", type=click.INT, default=-1, required=True, metavar="N", help="Largest number of pods."
)
@click.option(
    "--cpu-percent",
    type=click.INT,
    default=-1,
    metavar="N",
    cls=DeprecatedOption,
    message=_DEPRECATED,
    help="Target of average CPU usage, in percent of the requests.",
)
@click.option("--cpu", default="", metavar="N%|QUANTITY", help="Target of CPU usage: a percentage of requests, or CPU.")
@click.option("--memory", default="", metavar="N%|QUANTITY", help="Target of memory usage.")
@click.option(
    "--name", "hpa_name", default="", metavar="NAME", help="Name of the autoscaler. Default: that of the object."
)
@dry_run_option()
@filename_options("to scale")
@save_config_option()
@field_manager_option("kubectl-autoscale")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Create a horizontal pod autoscaler for a deployment, replica set, stateful set or replication controller."""
    dry_run = dry_run_of(options)
    _check_flags(options)
    printer = ResultPrinter(options)
    errors, count = ErrorAggregate(), 0
    namespace = factory.namespace if factory.has_namespace_flag else ""
    for info in factory.resources(words=words, files=filename_flags(options)).infos(errors):
        with errors.collect():
            if "scale" not in info.kind.subresources:
                raise KubectlError(
                    f"cannot autoscale a {info.kind.kind}: could not find scale subresource for {info.kind} in "
                    "discovery information"
                )
            value = with_change_cause(autoscaler(info, namespace, options), options)
            if dry_run == "client":
                printer.print(value, "created")
            else:
                value = with_last_applied(value) if options["save_config"] else value
                printer.print(_create(factory, value, dry_run, options), "autoscaled")
            count += 1
    errors.raise_any()
    if not count:
        raise KubectlError("no objects passed to autoscale")


def _create(factory: Factory, value: dict[str, Any], dry_run: str, options: dict[str, Any]) -> dict[str, Any]:
    """Create the autoscaler, in the old version of the API if the server rejects it and the flags allow that."""
    writer = ObjectWriter(session=factory.session, field_manager=options["field_manager"], dry_run=dry_run)
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
    if options["cpu_percent"] >= 0:
        spec["targetCPUUtilizationPercentage"] = options["cpu_percent"]
    old = {**value, "apiVersion": "autoscaling/v1", "spec": spec, "status": {}}
    return writer.create(ResourceInfo(kind, factory.namespace, name), old)


def _incompatibility(options: dict[str, Any]) -> str:
    """Return why the old version of the API cannot express the flags; empty if it can."""
    try:
        target = metric_target(options["cpu"], "cpu")
    except KubectlError as error:
        return error.message
    is_percentage = options["cpu_percent"] >= 0 or target["type"] == "Utilization"
    return "" if is_percentage and not options["memory"] else "%!w(<nil>)"


def _check_flags(options: dict[str, Any]) -> None:
    least, largest = options["minimum"], options["maximum"]
    if largest < 1:
        raise KubectlError(f"--max=MAXPODS is required and must be at least 1, max: {largest}")
    if largest < least:
        raise KubectlError(f"--max=MAXPODS must be larger or equal to --min=MINPODS, max: {largest}, min: {least}")
    if options["cpu_percent"] > 0 and options["cpu"]:
        raise KubectlError("--cpu-percent and --cpu are mutually exclusive")


def autoscaler(info: ResourceInfo, namespace: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler of a workload."""
    metadata = {"name": options["hpa_name"] or info.name} | ({"namespace": namespace} if namespace else {})
    target = {"kind": info.kind.kind, "name": info.name, "apiVersion": info.kind.api_version}
    spec: dict[str, Any] = {"scaleTargetRef": target}
    if options["minimum"] > 0:
        spec["minReplicas"] = options["minimum"]
    spec["maxReplicas"] = options["maximum"]
    metrics: list[dict[str, Any]] = []
    if options["cpu_percent"] > 0:
        metrics.append(_metric("cpu", {"type": "Utilization", "averageUtilization": options["cpu_percent"]}))
    metrics += [_metric(name, metric_target(options[name], name)) for name in ("cpu", "memory") if options[name]]
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
