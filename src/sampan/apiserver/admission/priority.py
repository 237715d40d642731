"""Priority: sets the priority of pods and pod groups from their priority class or the default one, and ensures a single
default."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Pod
from sampan.api.types.scheduling_v1 import PriorityClass
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation

_GROUP = "scheduling.k8s.io"
_NO_CLASS = PriorityClass(value=0, preemptionPolicy="PreemptLowerPriority")
"""The class that applies if there is no default class."""
_POD_GROUPS = {"podgroups": "pod group", "compositepodgroups": "composite pod group"}
"""The groups of pods, with what errors call them."""


class PriorityAdmission:
    name = "Priority"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_known = (resource.group, resource.plural) in (("", "pods"), (_GROUP, "priorityclasses"))
        is_known = is_known or (resource.group == _GROUP and resource.plural in _POD_GROUPS and operation == "CREATE")
        return is_known and operation in ("CREATE", "UPDATE") and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        if (title := _POD_GROUPS.get(attributes.resource.plural)) is not None:
            await _give_group_priority(attributes, title)
        if attributes.resource.plural != "pods":
            return
        if attributes.operation == "CREATE":
            await _give_priority(attributes, attributes.obj)
        else:
            _keep_priority(attributes.obj, attributes.old)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        if attributes.resource.plural != "priorityclasses" or not attributes.obj.globalDefault:
            return
        default = await _default_class(attributes)
        if default is not None and (attributes.operation == "CREATE" or default.metadata.name != attributes.name):
            name = default.metadata.name
            raise attributes.forbidden(f"PriorityClass {name} is already marked as default. Only one default can exist")


def _keep_priority(pod: Pod, old: Pod) -> None:
    """Keep the priority of a pod if the update does not set it."""
    if pod.spec.priority is None:
        pod.spec.priority = old.spec.priority
    if pod.spec.preemptionPolicy is None:
        pod.spec.preemptionPolicy = old.spec.preemptionPolicy


async def _give_priority(attributes: AdmissionAttributes, pod: Pod) -> None:
    spec = pod.spec
    priority_class = await _class_of(attributes, spec.priorityClassName)
    spec.priorityClassName = priority_class.metadata.name
    start = "priority admission controller computed"
    if spec.priority not in (None, priority_class.value):
        why = f"the integer value of priority ({spec.priority}) must not be provided in pod spec"
        raise attributes.forbidden(f"{why}; {start} {priority_class.value} from the given PriorityClass name")
    spec.priority = priority_class.value
    policy = priority_class.preemptionPolicy
    if policy is None:
        return
    if spec.preemptionPolicy not in (None, policy):
        why = f"the string value of PreemptionPolicy ({spec.preemptionPolicy}) must not be provided in pod spec"
        raise attributes.forbidden(f"{why}; {start} {policy} from the given PriorityClass name")
    spec.preemptionPolicy = policy


async def _give_group_priority(attributes: AdmissionAttributes, title: str) -> None:
    spec = attributes.obj.spec
    priority_class = await _class_of(attributes, spec.priorityClassName)
    if spec.priority not in (None, priority_class.value):
        raise attributes.forbidden(
            f"priority set in the {title} ({spec.priority}) must match the priority computed ({priority_class.value}) "
            "based on the priority class set in the spec"
        )
    spec.priority, spec.priorityClassName = priority_class.value, priority_class.metadata.name


async def _class_of(attributes: AdmissionAttributes, name: str) -> PriorityClass:
    if not name:
        return await _default_class(attributes) or _NO_CLASS
    store = attributes.registry.open_store_of(_GROUP, "v1", "PriorityClass")
    priority_class: PriorityClass | None = await lookup.find(store, "", name)
    if priority_class is None:
        raise attributes.forbidden(f"no PriorityClass with name {name} was found")
    return priority_class


async def _default_class(attributes: AdmissionAttributes) -> PriorityClass | None:
    """Return the default class; the one with the lowest value if there are several."""
    store = attributes.registry.open_store_of(_GROUP, "v1", "PriorityClass")
    classes = (priority_class for priority_class in await lookup.list_all(store) if priority_class.globalDefault)
    return min(classes, key=lambda priority_class: priority_class.value, default=None)
