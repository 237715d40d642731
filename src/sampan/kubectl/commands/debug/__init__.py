"""`kubectl debug`: debug pods with an additional container or in a copy, and nodes with a pod on them."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import (
    arguments,
    arguments_before_dash,
    bool_flag,
    changed_flags,
    string_flag,
    string_slice_flag,
)
from sampan.kubectl.command_line.shared_flags import FilenameOptions
from sampan.kubectl.commands.debug.profiles import COPY, EPHEMERAL, NODE, Pod, apply_profile, check_profile
from sampan.kubectl.documents import documents
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.objects.pod_selection import container_names
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSelection, ResourceSource

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_IMAGE = re.compile(r"[\w][\w.:/@-]*", re.ASCII)
_POLL_INTERVAL_S = 0.5
_PULL_POLICIES = ("", "Always", "IfNotPresent", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugOptions:
    words: tuple[str, ...] = arguments()
    filenames: tuple[str, ...] = string_slice_flag(
        "-f", "--filename", metavar="FILE", help="File that contains the object to debug."
    )
    arguments_only: bool = bool_flag(
        "--arguments-only", help="Pass the words after -- as arguments instead of as the command."
    )
    attach: bool = bool_flag("--attach", help="Wait for the container and attach to it. Default with -i.")
    container: str = string_flag("-c", "--container", metavar="C", help="Name of the debugging container.")
    copy_to: str = string_flag("--copy-to", metavar="NAME", help="Create a copy of the pod with this name.")
    replace: bool = bool_flag("--replace", help="With --copy-to, delete the original pod.")
    env: tuple[str, ...] = string_slice_flag("--env", metavar="K=V", help="Environment variables of the container.")
    image: str = string_flag("--image", metavar="IMAGE", help="Image of the debugging container.")
    keep_labels: bool = bool_flag("--keep-labels", help="With --copy-to, keep the labels.")
    keep_annotations: bool = bool_flag("--keep-annotations", help="With --copy-to, keep the annotations.")
    keep_liveness: bool = bool_flag("--keep-liveness", help="With --copy-to, keep liveness probes.")
    keep_readiness: bool = bool_flag("--keep-readiness", help="With --copy-to, keep readiness probes.")
    keep_startup: bool = bool_flag("--keep-startup", help="With --copy-to, keep startup probes.")
    keep_init_containers: bool = bool_flag(
        "--keep-init-containers", default=True, help="With --copy-to, run the init containers."
    )
    set_image: tuple[str, ...] = string_slice_flag(
        "--set-image", metavar="C=IMAGE", help="With --copy-to, change images."
    )
    image_pull_policy: str = string_flag("--image-pull-policy", metavar="POLICY", help="Pull policy of the image.")
    stdin: bool = bool_flag("-i", "--stdin", help="Keep standard input of the container open.")
    quiet: bool = bool_flag("-q", "--quiet", help="Print no messages about what is created.")
    same_node: bool = bool_flag("--same-node", help="With --copy-to, run the copy on the same node.")
    share_processes: bool = bool_flag(
        "--share-processes", default=True, help="With --copy-to, share the process namespace."
    )
    target: str = string_flag("--target", metavar="C", help="Container whose processes an ephemeral container sees.")
    tty: bool = bool_flag("-t", "--tty", help="Allocate a terminal for the container.")
    profile: str = string_flag(
        "--profile",
        default="general",
        metavar="PROFILE",
        help="Rights of the debug container: general, baseline, restricted, netadmin, sysadmin.",
    )
    custom: str = string_flag("--custom", metavar="FILE", help="File with fields of a container to add to the profile.")
    changed_flags: frozenset[str] = changed_flags()
    words_before_dash: int = arguments_before_dash()

    @property
    def targets(self) -> Sequence[str]:
        return self.words[: self.words_before_dash] if self.words_before_dash >= 0 else self.words

    @property
    def container_arguments(self) -> list[str]:
        """The words after `--`."""
        return list(self.words[self.words_before_dash :]) if self.words_before_dash >= 0 else []

    @property
    def images(self) -> dict[str, str]:
        """The images of --set-image by container."""
        return dict(pair.partition("=")[::2] for pair in self.set_image)

    @property
    def is_attach_chosen(self) -> bool:
        return "attach" in self.changed_flags

    @property
    def is_attached(self) -> bool:
        return self.attach or (self.stdin and not self.is_attach_chosen)


@KubectlCommand.define("debug", DebugOptions)
def command(factory: Factory, options: DebugOptions) -> None:
    """Debug pods and nodes."""
    check_profile(options.profile)
    custom_fields = _custom_fields(options.custom)
    _check(options, custom_fields)
    files = FilenameOptions(filenames=options.filenames)
    names = [word if "/" in word else f"pods/{word}" for word in options.targets]
    for info in ResourceBuilder(
        factory, ResourceSelection(words=names), ResourceSource(files=files), ResourceFetch(fetches_latest=True)
    ).infos():
        debugger = Debugger(factory, options, custom_fields)
        if (info.kind.group, info.kind.kind) == ("", "Node"):
            pod, container = debugger.debug_node(info.name)
        elif (info.kind.group, info.kind.kind) == ("", "Pod"):
            pod, container = debugger.debug_pod(info.value)
        else:
            raise KubectlError(f'"{info.kind.group}/{info.kind.version}, Kind={info.kind.kind}" not supported by debug')
        if options.is_attached and container:
            debugger.attach(pod, container)


def _custom_fields(path: str) -> dict[str, Any] | None:
    if not path:
        return None
    try:
        values = list(documents(Path(path).read_text(), path))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubectlError(f"must pass a container spec json file for custom profile: open {path}: {reason}") from None
    if len(values) != 1 or not isinstance(values[0], dict):
        raise KubectlError(f"{path} does not contain a valid container spec")
    return dict(values[0])


def _check(options: DebugOptions, custom_fields: Mapping[str, Any] | None) -> None:
    if options.attach and options.is_attach_chosen and not options.image and not options.container:
        raise KubectlError("you must specify --container or create a new container using --image in order to attach.")
    _check_copy(options)
    for name, image in (("", options.image), *options.images.items()):
        if image and not _IMAGE.fullmatch(image):
            container = f' for container "{name}"' if name else ""
            raise KubectlError(f'invalid image name "{image}"{container}: invalid reference format')
    if not (options.targets or options.filenames):
        raise KubectlError("NAME or filename is required for debug")
    if options.image_pull_policy not in _PULL_POLICIES:
        raise KubectlError(f"invalid image pull policy: {options.image_pull_policy}")
    if options.target:
        if options.copy_to:
            raise KubectlError("--target is incompatible with --copy-to. Use --share-processes instead.")
        if not options.quiet:
            click.echo(
                f'Targeting container "{options.target}". If you don\'t see processes from this container it may be '
                "because the container runtime doesn't support this feature."
            )
    if options.tty and not options.stdin:
        raise KubectlError("-i/--stdin is required for containers with -t/--tty=true")
    fixed = ("name", "command", "image", "lifecycle", "volumeDevices")
    if custom_fields and any(custom_fields.get(field) for field in fixed):
        raise KubectlError("name, command, image, lifecycle and volume devices are not modifiable via custom profile")
    if options.profile == "legacy":
        click.echo(
            "--profile=legacy is deprecated and planned to be removed in v1.39. It is recommended to specify other "
            'profile, for example "--profile=general".',
            err=True,
        )


def _check_copy(options: DebugOptions) -> None:
    if options.copy_to:
        if not (options.image or options.images or options.container_arguments):
            raise KubectlError("you must specify --image, --set-image or command arguments.")
        if options.container_arguments and not options.container and not options.image:
            raise KubectlError("you must specify an existing container or a new image when specifying args.")
        return
    for flag, value in (
        ("replace", options.replace),
        ("same-node", options.same_node),
        ("set-image", options.set_image),
    ):
        if value:
            raise KubectlError(f"--{flag} may only be used with --copy-to.")
    if not options.image:
        raise KubectlError("you must specify --image when not using --copy-to.")


class Debugger:
    """Creates debugging containers with the flags of one command line."""

    def __init__(self, factory: Factory, options: DebugOptions, custom_fields: Mapping[str, Any] | None) -> None:
        self._factory, self._custom_fields = factory, custom_fields
        self._session = factory.session
        self._options = options

    def debug_node(self, node: str) -> tuple[Pod, str]:
        options, name = self._options, self._options.container or "debugger"
        pod_name = f"node-debugger-{node}-{_suffix()}"
        self._print_unless_quiet(f"Creating debugging pod {pod_name} with container {name} on node {node}.")
        container = self._new_container(name)
        pod: Pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod_name, "labels": {"app.kubernetes.io/managed-by": "kubectl-debug"}},
            "spec": {
                "containers": [container],
                "nodeName": node,
                "restartPolicy": "Never",
                "tolerations": [{"operator": "Exists"}],
            },
        }
        apply_profile(options.profile, pod, container, NODE, options)
        self._customize(container)
        path = f"/api/v1/namespaces/{self._factory.namespace}/pods"
        return self._session.send("POST", path, body=pod), name

    def debug_pod(self, pod: Pod) -> tuple[Pod, str]:
        return self._debug_copy(pod) if self._options.copy_to else self._add_ephemeral_container(pod)

    def attach(self, pod: Pod, name: str) -> None:
        """Attach to the debugging container once it runs. If it has already ended, print its log instead."""
        from sampan.kubectl.commands.attach import AttachOptions, attach_to

        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        current = self._wait_for_container(path, name)
        if "terminated" not in _state(current, name):
            options = self._options
            chosen = AttachOptions(container=name, stdin=options.stdin, tty=options.tty, quiet=options.quiet)
            try:
                attach_to(self._factory, current, chosen)
                return
            except (ServerError, KubectlError) as error:
                click.echo(
                    f"warning: couldn't attach to pod/{metadata['name']}, falling back to streaming logs: "
                    f"{error.message}",
                    err=True,
                )
        sys.stdout.buffer.write(self._session.read(f"{path}/log?container={name}"))
        sys.stdout.buffer.flush()

    # -- containers --------------------------------------------------------------------------------------------------

    def _new_container(self, name: str) -> dict[str, Any]:
        options = self._options
        container: dict[str, Any] = {
            "name": name,
            "image": options.image,
            "terminationMessagePolicy": "File",
        }
        container |= {"imagePullPolicy": options.image_pull_policy} if options.image_pull_policy else {}
        container |= {"stdin": True} if options.stdin else {}
        container |= {"tty": True} if options.tty else {}
        self._set_command_and_environment(container)
        return container

    def _set_command_and_environment(self, container: dict[str, Any]) -> None:
        options = self._options
        if options.env:
            pairs = [pair.partition("=")[::2] for pair in options.env]
            container["env"] = [{"name": name, "value": value} for name, value in pairs]
        if options.container_arguments:
            container["args" if options.arguments_only else "command"] = options.container_arguments

    def _customize(self, container: dict[str, Any]) -> None:
        from sampan.kubectl.kustomization.patches import merge

        if self._custom_fields:
            merged = merge(dict(container), deepcopy(self._custom_fields))
            container.clear()
            container.update(merged)

    def _container_name(self, pod: Pod) -> str:
        if self._options.container:
            return str(self._options.container)
        used_names = container_names(pod, "containers", "initContainers", "ephemeralContainers")
        name = f"debugger-{_suffix()}"
        while name in used_names:
            name = f"debugger-{_suffix()}"
        self._print_unless_quiet(f"Defaulting debug container name to {name}.")
        return name

    def _add_ephemeral_container(self, pod: Pod) -> tuple[Pod, str]:
        name, metadata = self._container_name(pod), pod["metadata"]
        container = self._new_container(name)
        if self._options.target:
            container["targetContainerName"] = self._options.target
        copied = deepcopy(pod)
        copied["spec"].setdefault("ephemeralContainers", []).append(container)
        apply_profile(self._options.profile, copied, container, EPHEMERAL, self._options)
        self._customize(container)
        self._warn_of_user(copied, container)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/ephemeralcontainers"
        order = [{"name": entry["name"]} for entry in copied["spec"]["ephemeralContainers"]]
        patch = {"spec": {"$setElementOrder/ephemeralContainers": order, "ephemeralContainers": [container]}}
        try:
            result = self._session.send(
                "PATCH", path, body=patch, content_type="application/strategic-merge-patch+json"
            )
        except ServerError as error:
            if error.is_not_found and not error.error.details.get("name"):
                raise KubectlError(
                    f'ephemeral containers are disabled for this cluster (error from server: "{error.error.message}")'
                ) from None
            raise
        return result, name

    def _debug_copy(self, pod: Pod) -> tuple[Pod, str]:
        options, metadata = self._options, pod["metadata"]
        copied: Pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": options.copy_to, "namespace": metadata["namespace"]},
            "spec": deepcopy(pod["spec"]),
        }
        for field in ("labels", "annotations"):
            if metadata.get(field):
                copied["metadata"][field] = dict(metadata[field])
        spec = copied["spec"]
        spec.pop("ephemeralContainers", None)
        if "share-processes" in options.changed_flags:
            spec["shareProcessNamespace"] = options.share_processes
        if not options.same_node:
            spec.pop("nodeName", None)
        for entry in spec["containers"]:
            entry["image"] = options.images.get(entry["name"]) or options.images.get("*") or entry["image"]
        container = self._container_of_copy(copied)
        name = ""
        if container is not None:
            name = container["name"]
            apply_profile(options.profile, copied, container, COPY, options)
            self._customize(container)
            self._warn_of_user(copied, container)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        created = self._session.send("POST", path, body=copied)
        if options.replace:
            self._session.send("DELETE", f"{path}/{metadata['name']}", body={"gracePeriodSeconds": 0})
        return created, name

    def _container_of_copy(self, copied: Pod) -> dict[str, Any] | None:
        """Return the container of the copied pod to debug, which may exist or be new; None if the flags only change
        images."""
        options, spec = self._options, copied["spec"]
        existing = [*spec["containers"], *(spec.get("initContainers") or ())]
        container: dict[str, Any] | None = next(
            (entry for entry in existing if entry["name"] == options.container), None
        )
        if container is None:
            if not options.image:
                if options.images:
                    return None
                raise KubectlError("you must specify image when creating new container")
            container = {"name": self._container_name(copied), "terminationMessagePolicy": "File"}
            spec["containers"].append(container)
        if options.container_arguments and not options.arguments_only:
            container.pop("args", None)
        self._set_command_and_environment(container)
        for field, value in (("image", options.image), ("imagePullPolicy", options.image_pull_policy)):
            if value:
                container[field] = value
        container["stdin"], container["tty"] = options.stdin, options.tty
        return container

    # -- messages and status -----------------------------------------------------------------------------------------

    def _print_unless_quiet(self, text: str) -> None:
        if not self._options.quiet:
            click.echo(text)

    def _warn_of_user(self, pod: Pod, container: dict[str, Any]) -> None:
        user = (pod["spec"].get("securityContext") or {}).get("runAsUser")
        context = container.get("securityContext") or {}
        is_powerful = context.get("privileged") or (context.get("capabilities") or {}).get("add")
        if user and is_powerful and context.get("runAsUser") != 0:
            click.echo(
                "Warning: Non-root user is configured for the entire target Pod, and some capabilities granted by "
                'debug profile may not work. Please consider using "--custom" with a custom profile that specifies '
                '"securityContext.runAsUser: 0".',
                err=True,
            )

    def _wait_for_container(self, path: str, name: str) -> Pod:
        last = ""
        while True:
            pod: Pod = self._session.get(path)
            state = _state(pod, name)
            if "running" in state or "terminated" in state:
                return pod
            message = (state.get("waiting") or {}).get("message", "")
            if message and message != last and not self._options.quiet:
                click.echo(f"Warning: container {name}: {message}", err=True)
                last = message
            time.sleep(_POLL_INTERVAL_S)


def _suffix() -> str:
    return "".join(random.choice(_LETTERS) for _ in range(5))


def _state(pod: Pod, name: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for entry in status.get(field) or ():
            if entry.get("name") == name:
                return entry.get("state") or {}
    return {}
