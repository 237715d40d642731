"""What the table of controllers says of each, and what each is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Controller, RunnerConfig
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a cluster's administrator may say about the controllers."""

    root_ca: str = ""
    """The bundle, in PEM, that clients inside the cluster verify the API server with; without one none is published."""
    namespace_settle_s: float = 0
    """How long a deleted namespace is left alone; more than 0 where several API servers share a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What controllers are made from."""

    client_for: Callable[[str], Client]
    """The client that a controller of that name writes with."""
    events_for: Callable[[str, str], EventRecorder]
    """What records events: of the controller of that name, with this as their source."""
    informers: InformerFactory
    clock: Clock
    config: ControllerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    name: str
    aliases: Sequence[str] = ()
    is_on: bool = True
    """Whether `*` includes it."""
    factory: str
    """`module:function`, loaded when the controller is wanted: takes Parts, gives a Controller, or None where the
    configuration leaves it nothing to do."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)

    def make(self, parts: Parts) -> Controller | None:
        module, _, function = self.factory.partition(":")
        made: Controller | None = getattr(import_module(module), function)(parts)
        return made


__all__ = ["ControllerConfig", "Descriptor", "Parts"]
