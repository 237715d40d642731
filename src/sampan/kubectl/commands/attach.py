"""`kubectl attach`: connect to the main process of a container."""

from __future__ import annotations

from dataclasses import dataclass

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, duration_flag, string_flag
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.pod_selection import Pod, attachable_pod, container_names, default_container

_NOTICE = (
    "All commands and output from this session will be recorded in container logs, including credentials and sensitive "
    "information passed through the command prompt.\nIf you don't see a command prompt, try pressing enter."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    words: tuple[str, ...] = arguments()
    pod_running_timeout: float = duration_flag(
        "--pod-running-timeout", default_s=60.0, metavar="T", help="Time to wait for a running pod. Default: 1m."
    )
    container: str = string_flag(
        "-c", "--container", metavar="C", help="Container name. Default: the first container of the pod."
    )
    stdin: bool = bool_flag("-i", "--stdin", help="Pass standard input to the container.")
    tty: bool = bool_flag("-t", "--tty", help="Standard input is a terminal: forward it as one.")
    quiet: bool = bool_flag("-q", "--quiet", help="Print only output of the container.")
    detach_keys: str = string_flag(
        "--detach-keys", default="ctrl-p,ctrl-q", metavar="KEYS", help="Keys that end the session."
    )


@KubectlCommand.define("attach", AttachOptions)
def command(factory: Factory, options: AttachOptions) -> None:
    """Attach to the main process of a running container."""
    if not options.words:
        raise KubectlError("at least 1 argument is required for attach")
    if len(options.words) > 2:
        saw = " ".join(options.words)
        raise KubectlError(
            f"expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {len(options.words)}: [{saw}]"
        )
    if options.pod_running_timeout <= 0:
        raise KubectlError("--pod-running-timeout must be higher than zero")
    pod = attachable_pod(factory, "/".join(options.words), timeout_s=options.pod_running_timeout)
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"cannot attach a container in a completed pod; current phase is {phase}")
    attach_to(factory, pod, options)


def attach_to(factory: Factory, pod: Pod, options: AttachOptions) -> None:
    """Attach to a container of a pod with the flags of the command."""
    from sampan.kubectl.client.container_terminal import check_terminal, detach_sequence, run

    try:
        container = default_container(pod, options.container, is_quiet=options.quiet)
    except KubectlError as error:
        raise KubectlError(f"cannot attach to the container: {error.message}") from None
    has_tty = _has_tty(pod, container)
    if options.tty and not has_tty and not options.quiet:
        click.echo(f"error: Unable to use a TTY - container {container} did not allocate one", err=True)
    is_raw = check_terminal(has_stdin=options.stdin, has_tty=has_tty, is_quiet=options.quiet)
    if not options.quiet:
        click.echo(_NOTICE, err=True)
    metadata = pod["metadata"]
    run(
        factory.session,
        f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/attach",
        [("container", container), ("stdout", "true")],
        has_stdin=options.stdin,
        has_tty=is_raw,
        is_quiet=True,
        detach_keys=detach_sequence(options.detach_keys),
    )
    if is_raw and not options.quiet:
        click.echo(_session_end_text(pod, container))


def _session_end_text(pod: Pod, container: str) -> str:
    metadata = pod["metadata"]
    resume = f"'kubectl attach {metadata['name']} -c {container} -n {metadata['namespace']} -i -t'"
    if container in container_names(pod, "ephemeralContainers"):
        return (
            "Session ended, the ephemeral container will not be restarted but may be reattached using "
            f"{resume} if it is still running"
        )
    return f"Session ended, resume using {resume} command"


def _has_tty(pod: Pod, name: str) -> bool:
    spec = pod.get("spec") or {}
    return any(
        container.get("name") == name and bool(container.get("tty"))
        for field in ("containers", "initContainers", "ephemeralContainers")
        for container in spec.get(field) or ()
    )
