"""The contract of admission plugins: two extension points, and the attributes of a request that plugins see.

A plugin implements `MutatingAdmission`, `ValidatingAdmission` or both. `register_mutating`,
`register_validating` and `register_mutating_and_validating` register it for its phases, so that the type checker
verifies its methods. The counterparts are `MutationInterface`, `ValidationInterface` and `Attributes` of
`k8s.io/apiserver/pkg/admission`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sampan.api.resources.resource import Resource
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.admission.framework.static_manifests import StaticManifests
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.registry.strategy_services import StrategyServices
    from sampan.apiserver.request.call import UserInfo

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


WebhookIdentity = tuple[str, str, int]
"""Identifies a webhook by the name of its configuration, its own name, and its number among the webhooks with that
name. For an admission policy, the name of the configuration is empty."""


@dataclass(slots=True)
class Reinvocation:
    """The state with which mutating plugins are run a second time, after a webhook or policy has changed the
    object."""

    is_repeated: bool = False
    """Whether this run of the mutating plugins is a reinvocation."""
    is_required: bool = False
    """Whether a second run is necessary."""
    called: set[WebhookIdentity] = field(default_factory=set)
    """Webhooks and policies that are to be called again if the object changes after their call."""
    required: set[WebhookIdentity] = field(default_factory=set)
    """Webhooks and policies to be called in the second run."""
    last_output: bytes = b""
    """The object after the last call of a webhook."""

    def require_called(self) -> None:
        """Have all webhooks and policies of `called` called in the second run."""
        self.required |= self.called
        self.called.clear()


@dataclass(slots=True, kw_only=True)
class AdmissionAttributes:
    """The attributes of a request that admission plugins see. `obj` is the new object (None for a delete), which
    `admit` may change."""

    operation: Operation
    resource: Resource
    registry: Registry
    services: StrategyServices
    user: UserInfo
    namespace: str
    name: str
    obj: Any
    old: Any = None
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None
    exclude_time: Callable[[float], None] = lambda _: None
    """Excludes seconds from the duration of the request that counts towards the service level."""
    annotate: Callable[[str, str], None] = lambda key, value: None
    """Adds an audit annotation to the request."""
    options: Callable[[], dict[str, Any] | None] = lambda: None
    """Returns the CreateOptions, UpdateOptions or DeleteOptions of the request as a JSON value."""
    reinvocation: Reinvocation = field(default_factory=Reinvocation)

    def forbidden(self, why: str, causes: Sequence[Mapping[str, str]] = ()) -> errors.ApiError:
        """Return the Forbidden error that a plugin raises to reject the request."""
        resource, name = self.resource, self.name
        if not name:
            meta = self.obj.metadata if self.obj is not None else None
            name = (meta.name or meta.generateName if meta is not None else "") or "Unknown"
        return errors.forbidden(resource.plural, name, why, group=resource.group, causes=causes)


def is_pod(resource: Resource) -> bool:
    return resource.plural == "pods" and resource.group == ""


def is_pod_creation(operation: Operation, resource: Resource, subresource: str) -> bool:
    return is_pod(resource) and operation == "CREATE" and not subresource


def is_pod_write(operation: Operation, resource: Resource, subresource: str) -> bool:
    """Whether the request creates or updates a pod, rather than a subresource of it."""
    return is_pod(resource) and operation in ("CREATE", "UPDATE") and not subresource


class AdmissionPlugin(Protocol):
    """The properties that plugins of both extension points have in common."""

    @property
    def name(self) -> str:
        """The name in --enable-admission-plugins and --disable-admission-plugins."""

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Whether the plugin applies to requests with this operation, resource and subresource. The result is cached
        for each combination, so it must not depend on anything else."""


class MutatingAdmission(AdmissionPlugin, Protocol):
    async def admit(self, attributes: AdmissionAttributes) -> None:
        """Change the object in place, or reject the request.

        A rejection is an ApiError: that of `AdmissionAttributes.forbidden` unless the Kubernetes counterpart returns
        another one.
        """


class ValidatingAdmission(AdmissionPlugin, Protocol):
    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Reject the request with an ApiError, or return. The object must not be changed any more."""


class MutatingAndValidatingAdmission(MutatingAdmission, ValidatingAdmission, Protocol):
    """A plugin that takes part in both phases."""


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin and the phases in which the chain calls it."""

    plugin: AdmissionPlugin
    mutating: MutatingAdmission | None = None
    validating: ValidatingAdmission | None = None
    manifests: StaticManifests | None = None
    """The manifests of the plugin's own objects, which the server loads when it starts."""


def register_mutating(plugin: MutatingAdmission) -> RegisteredPlugin:
    return RegisteredPlugin(plugin, mutating=plugin)


def register_validating(plugin: ValidatingAdmission) -> RegisteredPlugin:
    return RegisteredPlugin(plugin, validating=plugin)


def register_mutating_and_validating(plugin: MutatingAndValidatingAdmission) -> RegisteredPlugin:
    return RegisteredPlugin(plugin, mutating=plugin, validating=plugin)
