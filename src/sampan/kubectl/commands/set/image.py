"""`kubectl set image`: change the images of containers."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.pairs import parse_pairs, split_pairs
from sampan.kubectl.command_line.shared_options import dry_run_of, filename_flags
from sampan.kubectl.commands.set import check_all_and_selector, select_objects, set_options
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import ResultPrinter, record_change, record_option
from sampan.kubectl.objects.pod_template import apply_changes, check_local, pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo


@click.command("image", cls=KubectlCommand)
@set_options()
@record_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change the images of containers."""
    dry_run, printer = dry_run_of(options), ResultPrinter(options)
    resources, pairs = split_pairs(words, "image")
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
        record_change(value, options)

    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        printer=printer,
        operation="image updated",
        failure="failed to patch image update to pod template:",
        errors=errors,
    )


def _check_flags(resources: list[str], images: dict[str, str], options: dict[str, Any], dry_run: str) -> None:
    errors = ErrorAggregate()
    with errors.collect():
        check_all_and_selector(options)
    if not (resources or filename_flags(options)):
        errors.add(KubectlError("one or more resources must be specified as <resource> <name> or <resource>/<name>"))
    if not images:
        errors.add(KubectlError("at least one image update is required"))
    elif len(images) > 1 and "*" in images:
        text = "all containers are already specified by *, but saw more than one container_name=container_image pairs"
        errors.add(KubectlError(text))
    with errors.collect():
        check_local(options, dry_run)
    errors.raise_any()
