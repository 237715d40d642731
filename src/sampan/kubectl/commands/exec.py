"""`kubectl exec`: run a command in a container."""

from __future__ import annotations

from dataclasses import dataclass

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import (
    arguments,
    arguments_before_dash,
    bool_flag,
    duration_flag,
    string_flag,
    string_slice_flag,
)
from sampan.kubectl.command_line.shared_flags import FilenameOptions
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.objects.pod_selection import (
    Pod,
    activity_order,
    attachable_pod,
    check_container,
    default_container,
    pods_of_object,
)
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceFetch, ResourceSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions:
    words: tuple[str, ...] = arguments()
    pod_running_timeout: float = duration_flag(
        "--pod-running-timeout", default_s=60.0, metavar="T", help="Time to wait for a running pod. Default: 1m."
    )
    filenames: tuple[str, ...] = string_slice_flag(
        "-f", "--filename", metavar="FILE", help="File with the object to use."
    )
    container: str = string_flag(
        "-c", "--container", metavar="C", help="Container name. Default: the first container of the pod."
    )
    stdin: bool = bool_flag("-i", "--stdin", help="Pass standard input to the container.")
    tty: bool = bool_flag("-t", "--tty", help="Standard input is a terminal: allocate one for the command.")
    quiet: bool = bool_flag("-q", "--quiet", help="Print only output of the command.")
    words_before_dash: int = arguments_before_dash()


@KubectlCommand.define("exec", ExecOptions)
def command(factory: Factory, options: ExecOptions) -> None:
    """Run a command in a container."""
    from sampan.kubectl.client.container_terminal import run

    dash = options.words_before_dash
    target = options.words[0] if options.words and dash != 0 else ""
    if dash not in (0, 1) and (len(options.words) > 1 or (options.words and options.filenames)):
        raise UsageError("exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead")
    command_words = options.words[dash:] if dash in (0, 1) else ()
    if not target and not options.filenames:
        raise KubectlError("pod, type/name or --filename must be specified")
    if not command_words:
        raise KubectlError("you must specify at least one command for the container")
    pod = _pod(factory, target, options)
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    requested = options.container
    container = check_container(pod, requested) if requested else default_container(pod, is_quiet=options.quiet)
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/exec"
    query = [*(("command", word) for word in command_words), ("container", container), ("stdout", "true")]
    run(
        factory.session,
        path,
        query,
        has_stdin=options.stdin,
        has_tty=options.tty,
        is_quiet=options.quiet,
    )


def _pod(factory: Factory, target: str, options: ExecOptions) -> Pod:
    timeout_s = options.pod_running_timeout
    if timeout_s <= 0:
        raise UsageError("--pod-running-timeout must be higher than zero")
    if target:
        return attachable_pod(factory, target, timeout_s=timeout_s)
    infos = list(
        ResourceBuilder(
            factory,
            source=ResourceSource(files=FilenameOptions(filenames=options.filenames)),
            fetch=ResourceFetch(fetches_latest=True),
        ).infos()
    )
    if len(infos) != 1:
        raise KubectlError("cannot exec into multiple objects at a time")
    return pods_of_object(factory.session, infos[0].value, "attach to", activity_order, timeout_s=timeout_s)[0][0]
