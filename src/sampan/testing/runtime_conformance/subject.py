"""The runtime under test, and what the checks share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.runtimes.contract import Runtime, Told

TIMEOUT_S = 150.0


class Feature(Enum):
    """What a check may need of a runtime."""

    PROGRAMS = "containers run real programs"
    EXEC = "commands run beside a container's own"
    ATTACH = "one can be connected to a container's own process"
    CONNECT = "ports of a pod can be reached"
    ADDRESS = "pods have addresses"
    STATS = "use of processor and memory is told"
    LIMITS = "memory and processor are limited"
    FILES = "containers have files of their own"
    MOUNTS = "files of the machine are mounted"
    USERS = "containers run as whom they are told"
    CAPABILITIES = "capabilities are given and taken"
    PRIVILEGED = "containers may have all privileges"
    NETWORK = "pods have a network of their own"
    HOSTNAME = "pods have a name of their own"
    DNS = "pods have a resolver of their own"
    SYSCTLS = "pods have kernel settings of their own"
    SHARED_PROCESSES = "containers of a pod may see each other's processes"
    IMAGES = "images are kept"
    PULL = "images are pulled"
    ADOPTION = "another runtime takes over what one has left"
    ENDS_ABANDONED = "a command that nobody is connected to any more is ended"


def _nothing(pod: Pod, container: str, exit_code: int | None) -> None:
    """A real container does by itself what it is told."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What the checks know about a runtime."""

    open: Callable[[Told], AbstractAsyncContextManager[Runtime]]
    """A runtime, not entered yet; a second one takes over what the first left."""
    folder: Path
    """Where checks keep logs and files that are mounted."""
    image: str
    lacks: Mapping[Feature, str] = field(default_factory=dict)
    """And why."""
    prepare: Callable[[Pod, str, int | None], None] = _nothing
    """Told before a container is started how it is going to end; None: it goes on."""
    left: Callable[[str], Collection[str]] = lambda uid: ()
    """What the machine has of the pod of that uid."""
    registry: str = ""
    """The address of one that has the image `busybox:pulled`; it need not be the same as `image`."""


Body = Callable[[Subject], Coroutine[None, None, None]]


@dataclass(frozen=True)
class Check:
    body: Body
    needs: frozenset[Feature]

    @property
    def name(self) -> str:
        return self.body.__name__


class Checks(list[Check]):
    """Those of one file, in its order."""

    def add(self, *needs: Feature) -> Callable[[Body], Body]:
        def added(body: Body) -> Body:
            self.append(Check(body, frozenset(needs)))
            return body

        return added


def missing(check: Check, subject: Subject) -> str:
    """Why the check says nothing about this runtime; empty if it does."""
    without = [f"{need.value}: {subject.lacks[need]}" for need in Feature if need in check.needs & set(subject.lacks)]
    return "; ".join(without)


def run(check: Check, subject: Subject, *, timeout_s: float = TIMEOUT_S) -> None:
    """Run one check on an event loop of its own."""
    asyncio.run(asyncio.wait_for(check.body(subject), timeout_s))


__all__ = ["TIMEOUT_S", "Check", "Checks", "Feature", "Subject", "missing", "run"]
