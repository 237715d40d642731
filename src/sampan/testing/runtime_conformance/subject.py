"""The runtime under test, and helpers that the checks share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.runtimes.contract import PodCallback, Runtime

TIMEOUT_S = 150.0


class Feature(Enum):
    """A feature that a check may require of a runtime."""

    PROGRAMS = "containers run real programs"
    EXEC = "commands run beside the main process of a container"
    ATTACH = "clients can attach to the main process of a container"
    CONNECT = "ports of a pod can be reached"
    ADDRESS = "pods have addresses"
    STATS = "CPU and memory usage is reported"
    LIMITS = "memory and processor are limited"
    FILES = "containers have files of their own"
    MOUNTS = "files of the machine are mounted"
    USERS = "containers run as the configured user"
    CAPABILITIES = "capabilities are added and dropped"
    PRIVILEGED = "containers may have all privileges"
    NETWORK = "pods have a network of their own"
    HOSTNAME = "pods have a name of their own"
    DNS = "pods have a resolver of their own"
    SYSCTLS = "pods have kernel settings of their own"
    SHARED_PROCESSES = "containers of a pod may see each other's processes"
    IMAGES = "images are kept"
    PULL = "images are pulled"
    ADOPTION = "a new runtime process takes over the containers of the previous one"
    ENDS_ABANDONED = "a command whose client has disconnected is killed"


def _do_nothing(pod: Pod, container: str, exit_code: int | None) -> None:
    """Do nothing: a real container runs its own command."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The runtime under test, as the checks see it."""

    open: Callable[[PodCallback], AbstractAsyncContextManager[Runtime]]
    """Returns a runtime that is not entered yet; a second one adopts the pods of the first."""
    directory: Path
    """The directory for logs and mounted files."""
    image: str
    lacks: Mapping[Feature, str] = field(default_factory=dict)
    """The features that the runtime does not have, each with the reason."""
    prepare: Callable[[Pod, str, int | None], None] = _do_nothing
    """Called before a container starts, with its pod, its name and its expected exit code, which is None if it keeps
    running."""
    left: Callable[[str], Collection[str]] = lambda uid: ()
    """Returns what the pod with this UID has left behind on the machine."""
    registry: str = ""
    """The address of a registry that has the image `busybox:pulled`, which may differ from `image`."""
    port: int = 8097
    """The port on which a container serves. It must be free on the machine if pods share the network of the machine."""


Body = Callable[[Subject], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Check:
    body: Body
    needs: frozenset[Feature]

    @property
    def name(self) -> str:
        return self.body.__name__


class Checks(list[Check]):
    """The checks of one module, in the order of their definition."""

    def add(self, *needs: Feature) -> Callable[[Body], Body]:
        def register(body: Body) -> Body:
            self.append(Check(body, frozenset(needs)))
            return body

        return register


def skip_reason(check: Check, subject: Subject) -> str:
    """Return why the check does not apply to this runtime; empty if it does."""
    without = [f"{need.value}: {subject.lacks[need]}" for need in Feature if need in check.needs & set(subject.lacks)]
    return "; ".join(without)


def run(check: Check, subject: Subject, *, timeout_s: float = TIMEOUT_S) -> None:
    """Run one check on a new event loop."""
    asyncio.run(asyncio.wait_for(check.body(subject), timeout_s))
