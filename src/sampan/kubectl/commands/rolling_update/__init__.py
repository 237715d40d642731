"""`kubectl rolling-update`: replace a replication controller by another one, pod by pod.

The progress is stored in annotations of both controllers, so that an interrupted update can be continued by the same
command or rolled back. `steps` decides; this module sends the requests and waits.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import click

from sampan.api.go_compat import gotext
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, duration_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    filename_flags,
    validate_flag,
)
from sampan.kubectl.commands.rolling_update import steps
from sampan.kubectl.errors import KubectlError, ServerError, UsageError
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceSource
from sampan.kubectl.printers import OutputOptions, as_yaml, output_flags
from sampan.kubectl.printers.results import ResultPrinter

Controller = dict[str, Any]
_RENAME_TIMEOUT_S = 60.0
_CONFLICT_RETRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingUpdateOptions:
    words: tuple[str, ...] = arguments()
    period_s: float = duration_flag("--update-period", default_s=60.0, metavar="TIME", help="Time between two steps.")
    poll_s: float = duration_flag(
        "--poll-interval", default_s=3.0, metavar="TIME", help="Time between two looks at the pods."
    )
    timeout_s: float = duration_flag(
        "--timeout", default_s=300.0, metavar="TIME", help="How long to wait for progress."
    )
    files: FilenameOptions = filename_flags("to update to", has_kustomize=False)
    image: str = string_flag("--image", help="New image of the container, instead of a file.")
    deployment_label_key: str = string_flag(
        "--deployment-label-key",
        default="deployment",
        metavar="KEY",
        help="Label that tells the pods of both controllers apart.",
    )
    container: str = string_flag("--container", metavar="NAME", help="Container whose image changes.")
    image_pull_policy: str = string_flag(
        "--image-pull-policy", metavar="POLICY", help="Pull policy for an image of the same name."
    )
    rolls_back: bool = bool_flag("--rollback", help="Return to the old controller.")
    dry_run: str = dry_run_flag()
    validate: str = validate_flag()
    output: OutputOptions = output_flags()


@KubectlCommand.define("rolling-update", RollingUpdateOptions)
def command(factory: Factory, options: RollingUpdateOptions) -> None:
    """Replace a replication controller by another one, pod by pod."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    _check_flags(options.words, options)
    update = RollingUpdate(factory, options.words, options)
    if dry_run != "none":
        click.echo(f"Rolling from:\n{as_yaml(update.old)}\nTo:\n{as_yaml(update.new)}")
        return
    controller, operation = update.run()
    printer.print({"apiVersion": "v1", "kind": "ReplicationController", **controller}, operation)


def _check_flags(words: tuple[str, ...], options: RollingUpdateOptions) -> None:
    files, image = options.files.filenames, options.image
    errors: list[str] = []
    if not options.deployment_label_key:
        errors.append("--deployment-label-key can not be empty")
    if len(files) > 1:
        errors.append("may only specify a single filename for new controller")
    if options.rolls_back:
        if files or image:
            errors.append("Don't specify --filename or --image on rollback")
    elif not (files or image):
        errors.append("must specify --filename or --image for new controller")
    elif files and image:
        errors.append("--filename and --image can not both be specified")
    if not words:
        errors.append("must specify the controller to update")
    if errors:
        raise UsageError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


class RollingUpdate:
    """The update from one controller to another."""

    def __init__(self, factory: Factory, words: tuple[str, ...], options: RollingUpdateOptions) -> None:
        self._factory, self._options = factory, options
        self._session: Session = factory.session
        self._api = ControllerApi(factory.session, factory.namespace)
        self._old_name = words[0]
        self._keeps_name = len(words) == 1
        self._source = options.files.filenames[0] if options.files.filenames else ""
        self.old: Controller = self._api.get(self._old_name)
        self.new: Controller = self._target(words)
        if not options.image:
            steps.check_selectors(self.old, self.new, self._source)

    def _target(self, words: tuple[str, ...]) -> Controller:
        """Return the new controller: from a file, derived from the old one with another image, or for a rollback the
        one of the interrupted update."""
        options = self._options
        name = words[1] if len(words) > 1 else steps.annotations_of(self.old).get(steps.NEXT_CONTROLLER, "")
        if options.rolls_back:
            new = self._api.find(name) if name else None
            if new is None:
                raise KubectlError(f"Could not find {name} to rollback.\n")
            return new
        if not options.image:
            return self._controller_of_file()
        new = self._api.find(name) if name else None
        if new is None:
            return self._derive_controller(name)
        image = new["spec"]["template"]["spec"]["containers"][0]["image"]
        if image != options.image:
            raise KubectlError(
                f"Found existing in-progress update to image ({image}).\nEither continue in-progress update with "
                f"--image={image} or rollback with --rollback"
            )
        click.echo(f"Found existing update in progress ({name}), resuming.")
        return new

    def _controller_of_file(self) -> Controller:
        infos = list(
            ResourceBuilder(self._factory, source=ResourceSource(files=self._options.files, validates=True)).infos()
        )
        if len(infos) != 1:
            raise KubectlError(f"{self._source} specifies multiple items")
        if (infos[0].kind.group, infos[0].kind.kind) != ("", "ReplicationController"):
            raise KubectlError(f"{self._source} contains a {infos[0].kind.kind} not a ReplicationController")
        controller: Controller = deepcopy(infos[0].value)
        self._keeps_name = False
        controller["spec"].setdefault("replicas", self.old["spec"].get("replicas", 1))
        labels = (controller["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
        controller["spec"].setdefault("selector", labels)
        return controller

    def _derive_controller(self, name: str) -> Controller:
        """Return a copy of the old controller with the new image and a selector of its own."""
        options = self._options
        controller = deepcopy(self.old)
        containers = controller["spec"]["template"]["spec"]["containers"]
        if not containers:
            raise KubectlError("pod has no containers!")
        if len(containers) > 1 and not options.container:
            raise KubectlError("must specify container to update when updating a multi-container pod")
        if options.container:
            chosen = [part for part in containers if part["name"] == options.container]
            if not chosen:
                raise KubectlError(f"container {options.container} not found in pod")
        else:
            chosen = containers
        if containers[0]["image"] == options.image and not options.image_pull_policy:
            raise KubectlError(
                "--image-pull-policy (Always|Never|IfNotPresent) must be provided when --image is the same as existing "
                "container image"
            )
        chosen[0]["image"] = options.image
        if options.image_pull_policy:
            chosen[0]["imagePullPolicy"] = options.image_pull_policy
        digest = _digest(controller)
        metadata = {"name": name or f"{self._old_name}-{digest}", "namespace": self._factory.namespace}
        metadata |= {"labels": controller["metadata"]["labels"]} if controller["metadata"].get("labels") else {}
        key = options.deployment_label_key
        controller["spec"].setdefault("selector", {})[key] = digest
        template_metadata = controller["spec"]["template"].setdefault("metadata", {})
        template_metadata["labels"] = {**(template_metadata.get("labels") or {}), key: digest}
        return {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": metadata,
            "spec": controller["spec"],
        }

    def run(self) -> tuple[Controller, str]:
        """Run or continue the update. Return the remaining controller and the operation to report."""
        if self._options.image:
            self._mark_old_pods()
            steps.check_selectors(self.old, self.new, self._source)
        if self._options.rolls_back:
            self._swap()
        self._update()
        name = self._old_name if self._keeps_name and not self._options.rolls_back else self._name(self.new)
        is_renamed = self._keeps_name or self._options.rolls_back
        operation = "rolling updated" if is_renamed else f'rolling updated to "{self._name(self.new)}"'
        return self._api.get(name), operation

    def _mark_old_pods(self) -> None:
        """Record the name of the new controller in the old one, and give its pods a label that the new ones do not
        have."""
        key, new_name = self._options.deployment_label_key, self._name(self.new)
        if key not in (self.old["spec"].get("selector") or {}):
            self._label_old_pods(key, f"{_digest(self.old)}-orig")
        self.old = self._api.annotate(self._old_name, {steps.NEXT_CONTROLLER: new_name})

    def _label_old_pods(self, key: str, value: str) -> None:
        """Label template, pods and selector, in this order, so that the controller never loses its pods. Delete pods
        that the controller created in between without the label."""

        def label_template(controller: Controller) -> None:
            metadata = controller["spec"]["template"].setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), key: value}

        def extend_selector(controller: Controller) -> None:
            controller["spec"]["selector"] = {**(controller["spec"].get("selector") or {}), key: value}

        self.old = self._api.change(self._old_name, label_template)
        selector = dict(self.old["spec"].get("selector") or {})
        for pod in self._api.pods(selector):
            self._api.label_pod(pod, key, value)
        self.old = self._api.change(self._old_name, extend_selector)
        for pod in self._api.pods(selector):
            if (pod["metadata"].get("labels") or {}).get(key) != value:
                self._api.delete_pod(pod)

    def _swap(self) -> None:
        """Swap the roles of both controllers for a rollback: the old one becomes the target, with its original number
        of replicas."""
        annotations = steps.rollback_annotations(self.old, self.new)
        size = annotations[steps.DESIRED_REPLICAS]
        click.echo(f'Setting "{self._old_name}" replicas to {size}')
        target = self._api.annotate(self._old_name, annotations)
        self.old, self.new = self.new, target
        self._keeps_name = False

    def _update(self) -> None:
        source = f"{self._name(self.old)}:{self.old['metadata'].get('uid', '')}"
        existing = self._api.find(self._name(self.new))
        if existing is None:
            self.new = self._api.create(steps.target_controller(self.new, source))
            click.echo(f"Created {self._name(self.new)}")
        else:
            steps.check_continuation(existing, source)
            self.new = existing
            click.echo(f"Continuing update with existing controller {self._name(self.new)}.")
        desired = steps.desired_replicas(self.new)
        if steps.ORIGINAL_REPLICAS not in steps.annotations_of(self.old):
            original = str(self.old["spec"].get("replicas", 0))
            self.old = self._api.annotate(self._name(self.old), {steps.ORIGINAL_REPLICAS: original})
        limits = steps.UpdateLimits(desired=desired)
        self._announce(limits)
        self._step_until_complete(limits)
        self._clean_up()

    def _announce(self, limits: steps.UpdateLimits) -> None:
        click.echo(
            f"Scaling up {self._name(self.new)} from {self._replicas(self.new)} to {limits.desired}, scaling down "
            f"{self._name(self.old)} from {self._replicas(self.old)} to 0 (keep {limits.min_available} pods available, "
            f"don't exceed {limits.desired + limits.max_surge} pods)"
        )

    def _step_until_complete(self, limits: steps.UpdateLimits) -> None:
        deadline = time.monotonic() + self._options.timeout_s
        while not steps.is_complete(self._replicas(self.old), self._replicas(self.new), limits):
            before = self._replicas(self.old), self._replicas(self.new)
            count = steps.compute_scale_up(*before, limits)
            if count != self._replicas(self.new):
                click.echo(f"Scaling {self._name(self.new)} up to {count}")
                self.new = self._scale(self.new, count)
            time.sleep(self._options.period_s)
            old, new = self._replicas(self.old), self._replicas(self.new)
            count = steps.compute_scale_down(old, new, self._api.ready_pods(self.new), limits)
            if count != old:
                click.echo(f"Scaling {self._name(self.old)} down to {count}")
                self.old = self._scale(self.old, count)
            if (self._replicas(self.old), self._replicas(self.new)) != before:
                deadline = time.monotonic() + self._options.timeout_s
            elif time.monotonic() > deadline:
                raise KubectlError("timed out waiting for any update progress to be made")

    def _scale(self, controller: Controller, count: int) -> Controller:
        """Scale a controller and wait until it has created or deleted the pods."""
        name = self._name(controller)
        controller = self._api.scale(name, count)
        deadline = time.monotonic() + self._options.timeout_s
        while (controller.get("status") or {}).get("replicas", 0) != count:
            if time.monotonic() > deadline:
                raise KubectlError(f'timed out waiting for "{name}" to be synced')
            time.sleep(self._options.poll_s)
            controller = self._api.get(name)
            if self._replicas(controller) != count:
                break
        return controller

    def _clean_up(self) -> None:
        """Remove the annotations of the update and the old controller; rename the new one if the name is kept."""
        old_name, new_name = self._name(self.old), self._name(self.new)
        self.new = self._api.annotate(new_name, {steps.DESIRED_REPLICAS: None, steps.UPDATE_SOURCE: None})
        if not self._keeps_name:
            click.echo(f"Update succeeded. Deleting {old_name}")
            self._api.delete(old_name)
            return
        click.echo(f"Update succeeded. Deleting old controller: {old_name}")
        self._api.delete(old_name)
        click.echo(f"Renaming {new_name} to {old_name}")
        self._rename(new_name, old_name)

    def _rename(self, name: str, new_name: str) -> None:
        """Delete the controller without its pods, and create it again under another name."""
        self._api.delete(name, orphans=True)
        deadline = time.monotonic() + _RENAME_TIMEOUT_S
        while self._api.find(name) is not None or self._api.find(new_name) is not None:
            if time.monotonic() > deadline:
                raise KubectlError("timed out waiting for the condition")
            time.sleep(min(self._options.poll_s, 1.0))
        metadata = {"name": new_name, "namespace": self._factory.namespace}
        for field in ("labels", "annotations"):
            if self.new["metadata"].get(field):
                metadata[field] = self.new["metadata"][field]
        self.new = self._api.create({**self.new, "metadata": metadata, "status": {}})

    @staticmethod
    def _name(controller: Controller) -> str:
        return str(controller["metadata"]["name"])

    @staticmethod
    def _replicas(controller: Controller) -> int:
        return int(controller["spec"].get("replicas") or 0)


class ControllerApi:
    """Requests for replication controllers and their pods in a namespace."""

    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace_path = f"/api/v1/namespaces/{namespace}"
        self._path = f"{self._namespace_path}/replicationcontrollers"

    def get(self, name: str) -> Controller:
        controller: Controller = self._session.get(f"{self._path}/{name}")
        return controller

    def find(self, name: str) -> Controller | None:
        try:
            return self.get(name)
        except ServerError as error:
            if error.is_not_found:
                return None
            raise

    def create(self, controller: Controller) -> Controller:
        created: Controller = self._session.send("POST", self._path, body=controller)
        return created

    def change(self, name: str, change: Callable[[Controller], None]) -> Controller:
        """Apply a change to the newest version of a controller, and retry after a conflict."""
        for attempt in range(_CONFLICT_RETRIES):
            controller = self.get(name)
            change(controller)
            try:
                changed: Controller = self._session.send("PUT", f"{self._path}/{name}", body=controller)
            except ServerError as error:
                if error.error.reason != "Conflict" or attempt == _CONFLICT_RETRIES - 1:
                    raise
                continue
            return changed
        raise AssertionError("unreachable")

    def annotate(self, name: str, annotations: dict[str, Any]) -> Controller:
        """Set annotations of a controller; the value None removes an annotation."""

        def set_annotations(controller: Controller) -> None:
            merged = {**steps.annotations_of(controller), **annotations}
            controller["metadata"]["annotations"] = {key: text for key, text in merged.items() if text is not None}

        return self.change(name, set_annotations)

    def scale(self, name: str, count: int) -> Controller:
        def set_replicas(controller: Controller) -> None:
            controller["spec"]["replicas"] = count

        return self.change(name, set_replicas)

    def delete(self, name: str, *, orphans: bool = False) -> None:
        policy = "Orphan" if orphans else "Background"
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        self._session.send("DELETE", f"{self._path}/{name}", body=body)

    def pods(self, selector: dict[str, str]) -> list[dict[str, Any]]:
        text = ",".join(f"{key}={value}" for key, value in selector.items())
        return list(self._session.get(f"{self._namespace_path}/pods", {"labelSelector": text}).get("items") or ())

    def ready_pods(self, controller: Controller) -> int:
        return sum(
            any(
                condition.get("type") == "Ready" and condition.get("status") == "True"
                for condition in (pod.get("status") or {}).get("conditions") or ()
            )
            and not pod["metadata"].get("deletionTimestamp")
            for pod in self.pods(controller["spec"].get("selector") or {})
        )

    def label_pod(self, pod: dict[str, Any], key: str, value: str) -> None:
        body = {"metadata": {"labels": {key: value}}}
        path = f"{self._namespace_path}/pods/{pod['metadata']['name']}"
        try:
            self._session.send("PATCH", path, body=body, content_type="application/merge-patch+json")
        except ServerError as error:
            if not error.is_not_found:
                raise

    def delete_pod(self, pod: dict[str, Any]) -> None:
        try:
            self._session.send("DELETE", f"{self._namespace_path}/pods/{pod['metadata']['name']}")
        except ServerError as error:
            if not error.is_not_found:
                raise


def _digest(controller: Controller) -> str:
    """Return the hash of a controller, which makes the pods of both controllers distinguishable."""
    return hashlib.md5(gotext.json_text(controller).encode(), usedforsecurity=False).hexdigest()
