"""`kubectl set image`: change the images of containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.pairs import parse_pairs, split_pairs
from sampan.kubectl.command_line.shared_flags import check_all_and_selectors, check_local, dry_run_strategy, record_flag
from sampan.kubectl.commands.set.feature_change import SelectingSetOptions, apply_changes, select_objects
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import record_change
from sampan.kubectl.objects.pod_template import pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions(SelectingSetOptions):
    record: bool = record_flag()


@KubectlCommand.define("image", ImageOptions)
def command(factory: Factory, options: ImageOptions) -> None:
    """Change the images of containers."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    resources, pairs = split_pairs(options.words, "image")
    images, _ = parse_pairs(pairs, "image", allows_removal=False)
    infos = select_objects(factory, resources, options)
    _check_flags(resources, images, options, dry_run)
    errors = ErrorAggregate()

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        pod_spec = pod_spec_of(value, info)
        containers = [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
        for name, image in images.items():
            chosen = [container for container in containers if name in ("*", container["name"])]
            for container in chosen:
                container["image"] = image
            if not chosen:
                errors.add(KubectlError(f'error: unable to find container named "{name}"'))
        record_change(value, options.record)

    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        dry_run=dry_run,
        printer=printer,
        operation="image updated",
        failure="failed to patch image update to pod template:",
        errors=errors,
    )


def _check_flags(resources: list[str], images: dict[str, str], options: ImageOptions, dry_run: str) -> None:
    errors = ErrorAggregate()
    with errors.collect():
        check_all_and_selectors(options.selects_all, options.selector)
    if not (resources or options.files):
        errors.add(KubectlError("one or more resources must be specified as <resource> <name> or <resource>/<name>"))
    if not images:
        errors.add(KubectlError("at least one image update is required"))
    elif len(images) > 1 and "*" in images:
        text = "all containers are already specified by *, but saw more than one container_name=container_image pairs"
        errors.add(KubectlError(text))
    with errors.collect():
        check_local(options.local, dry_run)
    errors.raise_any()
