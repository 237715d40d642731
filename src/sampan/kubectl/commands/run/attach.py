"""Attach to a pod that `kubectl run` has created, and wait for its end (`handleAttachPod` in `cmd/run/run.go`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.commands.attach import AttachOptions, attach_to
from sampan.kubectl.errors import KubectlError, ServerError, SilentExit
from sampan.kubectl.objects.targets import ResourceInfo

Pod = dict[str, Any]
_POLL_S = 0.2


def attach_to_new_pod(
    factory: Factory, info: ResourceInfo, options: AttachOptions, *, timeout_s: float, restart: str, stays_open: bool
) -> None:
    """Attach to the pod as soon as it is ready; print the log of one that has ended already. Exit with the code of the
    container if the pod is not restarted. With `stays_open`, do not wait for the end."""
    session = factory.session
    pod = _wait(session, info, timeout_s, lambda pod: _is_finished(pod) or _is_ready(pod))
    if _is_finished(pod):
        _print_log(session, info)
    else:
        _attach(factory, info, pod, options)
    if stays_open or restart == "Always":
        return
    succeeds = restart == "OnFailure"
    end = _wait(session, info, timeout_s, lambda pod: _phase(pod) == "Succeeded" if succeeds else _is_finished(pod))
    if _phase(end) == "Failed":
        _fail(info, end)


def _attach(factory: Factory, info: ResourceInfo, pod: Pod, options: AttachOptions) -> None:
    try:
        attach_to(factory, pod, options)
    except click.ClickException as error:
        if isinstance(error, SilentExit):
            raise
        text = error.error.message if isinstance(error, ServerError) else error.message
        click.echo(f"warning: couldn't attach to pod/{info.name}, falling back to streaming logs: {text}", err=True)
        _print_log(factory.session, info)


def _wait(session: Session, info: ResourceInfo, timeout_s: float, is_reached: Callable[[Pod], bool]) -> Pod:
    deadline = time.monotonic() + timeout_s
    while True:
        pod: Pod = session.get(info.path)
        if is_reached(pod):
            return pod
        if time.monotonic() > deadline:
            raise KubectlError("timed out waiting for the condition")
        time.sleep(_POLL_S)


def _phase(pod: Pod) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _is_finished(pod: Pod) -> bool:
    return _phase(pod) in ("Succeeded", "Failed")


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(part.get("type") == "Ready" and part.get("status") == "True" for part in conditions)
    return _phase(pod) == "Running" and is_ready


def _print_log(session: Session, info: ResourceInfo) -> None:
    log_session = session.open_another()
    try:
        for piece in log_session.pieces(f"{info.path}/log", {"container": info.name}):
            sys.stdout.buffer.write(piece)
    finally:
        log_session.close()
    sys.stdout.flush()


def _fail(info: ResourceInfo, pod: Pod) -> None:
    name = f"{info.namespace}/{info.name}"
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    terminated = ((statuses[0].get("state") or {}) if statuses else {}).get("terminated")
    if not terminated or not terminated.get("exitCode"):
        raise KubectlError(f"pod {name} failed with unknown exit code")
    reason, message = terminated.get("reason", ""), terminated.get("message", "")
    click.echo(f"pod {name} terminated ({reason})\n{message}".rstrip("\n"), err=True)
    raise SilentExit(terminated["exitCode"])
