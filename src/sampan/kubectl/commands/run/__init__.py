"""`kubectl run`: create a pod that runs an image, and attach to it on request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sampan.api import names
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import (
    arguments,
    arguments_before_dash,
    bool_flag,
    changed_flags,
    duration_flag,
    flag_group,
    string_array_flag,
    string_flag,
    string_slice_flag,
)
from sampan.kubectl.command_line.pairs import parse_pairs
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    dry_run_flag,
    dry_run_strategy,
    field_manager_flag,
    record_flag,
    save_config_flag,
)
from sampan.kubectl.commands.expose import parse_label_text
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.deletion import Deletion, DeletionOptions, cascade_policy, deletion_flags
from sampan.kubectl.objects.last_applied import with_last_applied
from sampan.kubectl.objects.object_writer import ObjectWriter, with_change_cause
from sampan.kubectl.objects.overrides import OverrideOptions, override_flags, with_overrides
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_DOMAIN = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_is_image = re.compile(
    rf"(?:(?:{_DOMAIN}(?:\.{_DOMAIN})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
).fullmatch
_ATTACH_TIMEOUT_S = 60.0
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    words: tuple[str, ...] = arguments()
    deletion: DeletionOptions = deletion_flags(waits=False)
    files: FilenameOptions = flag_group(FilenameOptions, omitted=("filenames",), action="to use")
    ignored_files: tuple[str, ...] = string_slice_flag(
        "-f",
        "--filename",
        metavar="FILE",
        help="File that is ignored.",
        message="it is ignored by kubectl run and will be removed in a future release",
        has_deprecated_shorthand=True,
    )
    output: OutputOptions = output_flags()
    record: bool = record_flag()
    dry_run: str = dry_run_flag()
    annotations: tuple[str, ...] = string_array_flag(
        "--annotations", metavar="KEY=VALUE", help="Annotation of the pod; repeatable."
    )
    image: str = string_flag("--image", required=True, help="Image of the container.")
    image_pull_policy: str = string_flag(
        "--image-pull-policy", metavar="POLICY", help="When the kubelet pulls the image: Always, IfNotPresent or Never."
    )
    removes: bool = bool_flag("--rm", help="Delete the pod after it exits; only if attached.")
    env: tuple[str, ...] = string_array_flag(
        "--env", metavar="NAME=VALUE", help="Environment variable of the container; repeatable."
    )
    port: str = string_flag("--port", help="Port of the container.")
    labels: str = string_flag("-l", "--labels", metavar="KEY=VALUE,...", help="Labels of the pod. Default: run=NAME.")
    is_interactive: bool = bool_flag("-i", "--stdin", help="Keep standard input open.")
    tty: bool = bool_flag("-t", "--tty", help="Give the container a terminal.")
    attaches: bool = bool_flag("--attach", help="Attach to the pod; the default with -i.")
    leave_stdin_open: bool = bool_flag("--leave-stdin-open", help="Leave standard input open after the first attach.")
    restart: str = string_flag(
        "--restart",
        default="Always",
        metavar="POLICY",
        help="When containers of the pod are restarted: Always, OnFailure or Never.",
    )
    is_command: bool = bool_flag("--command", help="Use the words as the command instead of its arguments.")
    exposes: bool = bool_flag("--expose", help="Also create a service; requires --port.")
    quiet: bool = bool_flag("-q", "--quiet", help="Do not print prompts.")
    privileged: bool = bool_flag("--privileged", help="Run the container privileged.")
    detach_keys: str = string_flag("--detach-keys", metavar="KEYS", help="Keys that detach from the container.")
    field_manager: str = field_manager_flag("kubectl-run")
    overrides: OverrideOptions = override_flags()
    save_config: bool = save_config_flag()
    timeout_s: float = duration_flag(
        "--pod-running-timeout",
        default_s=_ATTACH_TIMEOUT_S,
        metavar="TIME",
        help="How long to wait until the pod runs.",
    )
    changed_flags: frozenset[str] = changed_flags()
    words_before_dash: int = arguments_before_dash()


@KubectlCommand.define("run", RunOptions)
def command(factory: Factory, options: RunOptions) -> None:
    """Create a pod that runs an image."""
    if not options.restart:
        options = replace(options, restart="OnFailure" if options.is_interactive else "Always")
    _check_values(options)
    dry_run = dry_run_strategy(options.dry_run)
    if options.is_interactive and "attach" not in options.changed_flags:
        options = replace(options, attaches=True)
    printer = ResultPrinter(options.output, dry_run)
    policy = cascade_policy(options.deletion.cascade)
    _check_flags(options, dry_run)
    creator = _ObjectCreator(factory, options, dry_run)
    pod = creator.create(with_overrides(pod_of_flags(options.words[0], options.words[1:], options), options.overrides))
    created = [pod]
    errors = ErrorAggregate()
    if options.exposes:
        with errors.collect():
            created.append(creator.create(_service(options.words[0], options)))
    if not options.attaches:
        for info in created:
            with errors.collect():
                printer.print(info.value, "created")
        errors.raise_any()
        return
    deletion = Deletion(session=factory.session, policy=policy, is_quiet=options.quiet)
    try:
        _attach(factory, pod, options)
    finally:
        if options.removes:
            for info in created:
                with errors.collect():
                    _delete(deletion, info)


def _check_values(options: RunOptions) -> None:
    """Raise KubectlError for a value that no combination of flags makes valid."""
    parse_pairs(options.annotations, "annotations", allows_removal=False)
    if options.labels:
        parse_label_text(options.labels)
    for text in options.env:
        _variable(text)
    if options.restart not in _RESTART_POLICIES:
        raise KubectlError(_invalid_choice("restart policy", options.restart, _RESTART_POLICIES))
    if options.image_pull_policy and options.image_pull_policy not in _PULL_POLICIES:
        raise KubectlError(_invalid_choice("image pull policy", options.image_pull_policy, _PULL_POLICIES))
    if options.timeout_s <= 0:
        raise KubectlError("--pod-running-timeout must be higher than zero")


def _invalid_choice(title: str, value: str, choices: Sequence[str]) -> str:
    return f"invalid {title}: {value}, valid values are: {', '.join(choices)}"


def _check_flags(options: RunOptions, dry_run: str) -> None:
    if not options.words or options.words_before_dash == 0:
        raise KubectlError("NAME is required for run")
    if not options.image:
        raise KubectlError("--image is required")
    if not _is_image(options.image):
        raise KubectlError(f"invalid image name {quote_text(options.image)}: invalid reference format")
    if options.tty and not options.is_interactive:
        raise KubectlError("-i/--stdin is required for containers with -t/--tty=true")
    if options.exposes and not options.port:
        raise KubectlError("--port must be set when exposing a service")
    if options.port:
        _parse_port(options.port)
    if options.removes and not options.attaches:
        raise KubectlError("--rm should only be used for attached containers")
    if options.attaches and dry_run != "none":
        raise KubectlError(
            "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)"
        )


def pod_of_flags(name: str, arguments: Sequence[str], options: RunOptions) -> dict[str, Any]:
    """Return the pod that the flags describe."""
    container: dict[str, Any] = {"name": name, "image": options.image}
    if arguments:
        container["command" if options.is_command else "args"] = list(arguments)
    if options.port:
        container["ports"] = [{"containerPort": _parse_port(options.port)}]
    if options.env:
        container["env"] = [_variable(text) for text in options.env]
    container["resources"] = {}
    if options.image_pull_policy:
        container["imagePullPolicy"] = options.image_pull_policy
    if options.privileged:
        container["securityContext"] = {"privileged": True}
    if options.is_interactive:
        container["stdin"] = True
        container |= {} if options.leave_stdin_open else {"stdinOnce": True}
    if options.tty:
        container["tty"] = True
    metadata: dict[str, Any] = {"name": name, "labels": _labels(name, options)}
    annotations, _ = parse_pairs(options.annotations, "annotations", allows_removal=False)
    metadata |= {"annotations": annotations} if annotations else {}
    spec = {"containers": [container], "restartPolicy": options.restart, "dnsPolicy": "ClusterFirst"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}}


def _labels(name: str, options: RunOptions) -> dict[str, str]:
    return parse_label_text(options.labels) if options.labels else {"run": name}


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise KubectlError("--port must be a number")
    return int(text)


def _variable(text: str) -> dict[str, str]:
    name, equals, value = text.partition("=")
    if not equals or names.env_var_name(name):
        raise KubectlError(f"invalid env: {text}")
    return {"name": name} | ({"value": value} if value else {})


def _service(name: str, options: RunOptions) -> dict[str, Any]:
    labels = _labels(name, options)
    port = _parse_port(options.port)
    metadata: dict[str, Any] = {"name": name} | ({"labels": labels} if options.labels else {})
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"ports": [{"protocol": "TCP", "port": port, "targetPort": port}], "selector": labels},
        "status": {"loadBalancer": {}},
    }


class _ObjectCreator:
    """Creates the objects of a `kubectl run` command. With a client-side dry run it sends no request."""

    def __init__(self, factory: Factory, options: RunOptions, dry_run: str) -> None:
        self._factory, self._options, self._dry_run = factory, options, dry_run

    def create(self, value: dict[str, Any]) -> ResourceInfo:
        factory, options = self._factory, self._options
        kind = factory.kinds.find_by_kind(value["apiVersion"], value["kind"])
        value = with_change_cause(value, options.record)
        info = ResourceInfo(kind, factory.namespace, value["metadata"]["name"], value)
        if self._dry_run == "client":
            if factory.has_namespace_flag:
                info.value = {**value, "metadata": {**value["metadata"], "namespace": factory.namespace}}
            return info
        value = with_last_applied(value) if options.save_config else value
        writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=self._dry_run)
        info.value = writer.create(info, value)
        return info


def _attach(factory: Factory, pod: ResourceInfo, options: RunOptions) -> None:
    from sampan.kubectl.commands.attach import AttachOptions
    from sampan.kubectl.commands.run.attach import attach_to_new_pod

    attach_to_new_pod(
        factory,
        pod,
        AttachOptions(
            container=pod.name,
            stdin=options.is_interactive,
            tty=options.tty,
            quiet=options.quiet,
            detach_keys=options.detach_keys,
        ),
        timeout_s=options.timeout_s,
        restart=options.restart,
        stays_open=options.leave_stdin_open,
    )


def _delete(deletion: Deletion, info: ResourceInfo) -> None:
    try:
        deletion.delete(info)
    except ServerError as error:
        if not error.is_not_found:
            raise
