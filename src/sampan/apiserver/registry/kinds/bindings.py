"""The pods/binding subresource, and the legacy resource `bindings`, which bind a pod to a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sampan.api import names
from sampan.api.field_errors import FieldError, join_messages
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.semantics.pods import set_pod_condition
from sampan.api.types.core_v1 import Binding, Pod
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry import preconditions
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.defaults import drop_old_annotations
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.request import bodies, options
from sampan.apiserver.response.responses import ValueResponse, created_status
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call

_BINDING = GroupVersionKind(group="", version="v1", kind="Binding")


class _BindingStrategy(Strategy):
    """The strategy of a binding, which is neither validated as an update of the spec nor changes the generation."""


_STRATEGY = _BindingStrategy()


async def bind(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    opts = options.write_options("CreateOptions", call.query)
    binding: Binding = await endpoints.read_object(call, endpoints.registry.codec(_BINDING), opts.field_validation)
    bodies.match_namespace(call, binding)
    if not call.name:  # the legacy resource, whose path does not name the pod
        if not binding.metadata.name:
            raise errors.bad_request("Name parameter required.")
        binding.metadata.uid = ""
    ctx = endpoints.context(call, opts.dry_run)
    await endpoints.admission.admit(endpoints.attributes("CREATE", call, binding, None, ctx))
    if call.name and call.name != binding.metadata.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if field_errors := _validate_binding(binding):
        raise errors.unexpected_error(join_messages([str(error) for error in field_errors]))
    await endpoints.admission.validate(endpoints.attributes("CREATE", call, binding, None, ctx))
    await _assign(endpoints, ctx, binding)
    return created_status()


def _validate_binding(binding: Binding) -> list[FieldError]:
    field_errors = []
    if binding.target.kind not in ("", "Node"):
        field_errors.append(FieldError.not_supported("target.kind", binding.target.kind, ("Node", "<empty>")))
    name = binding.target.name
    if not name:
        field_errors.append(FieldError.required("target.name"))
    elif binding.target.kind in ("", "Node"):
        field_errors += [FieldError.invalid("target.name", name, text) for text in names.dns1123_subdomain(name)]
    return field_errors


async def _assign(endpoints: ApiEndpoints, ctx: Context, binding: Binding) -> None:
    store = endpoints.registry.open_store_of("", "v1", "Pod")
    meta = binding.metadata

    async def change(pod: Any) -> Any:
        key, uid, version = store.key(ctx.namespace, meta.name), meta.uid, meta.resourceVersion
        preconditions.check_stored(store.resource, key, pod, uid=uid, resource_version=version)
        if why := _find_assignment_error(pod):
            raise errors.conflict("pods/binding", meta.name, why)
        _put_on_node(pod, binding, ctx.now)
        return pod

    await store.update(ctx, meta.name, change, strategy=_STRATEGY)


def _find_assignment_error(pod: Pod) -> str:
    name = pod.metadata.name
    if pod.metadata.deletionTimestamp is not None:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod.spec.nodeName:
        return f'pod {name} is already assigned to node "{pod.spec.nodeName}"'
    if pod.spec.schedulingGates:
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _put_on_node(pod: Pod, binding: Binding, now: str) -> None:
    pod.spec.nodeName = binding.target.name
    pod.status.nominatedNodeName = ""
    pod.metadata.annotations.update(binding.metadata.annotations)
    drop_old_annotations(pod.metadata.annotations)
    pod.metadata.labels.update(binding.metadata.labels)
    set_pod_condition(pod.status, "PodScheduled", "True", now=now)


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": bind}
