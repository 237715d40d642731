"""AlwaysPullImages: images are pulled for every new container, so that only users who may pull an image can run it."""

from collections.abc import Iterator

from sampan.api.field_errors import FieldError
from sampan.api.resources.resource import Resource
from sampan.api.semantics.pods import containers_by_field
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_write

_ALWAYS = "Always"


class AlwaysPullImages:
    name = "AlwaysPullImages"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_write(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        if not has_new_images(attributes.old, pod):
            return
        for _, container, _ in containers_by_field(pod.spec):
            container.imagePullPolicy = _ALWAYS
        for volume in pod.spec.volumes:
            if volume.image is not None:
                volume.image.pullPolicy = _ALWAYS

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        if not has_new_images(attributes.old, pod):
            return
        messages = [
            str(FieldError.not_supported(field, policy, [_ALWAYS])) for field, policy in _find_other_policies(pod)
        ]
        if messages:
            texts = [attributes.forbidden(message).message for message in messages]
            refusal = attributes.forbidden(messages[0])
            refusal.status["message"] = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            raise refusal


def has_new_images(old: Pod | None, new: Pod) -> bool:
    if old is None:
        return True
    old_images = {container.image for _, container, _ in containers_by_field(old.spec)}
    return any(container.image not in old_images for _, container, _ in containers_by_field(new.spec))


def _find_other_policies(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each pull policy that is not Always."""
    for path, container, index in containers_by_field(pod.spec):
        if container.imagePullPolicy != _ALWAYS:
            yield f"spec.{path}[{index}].imagePullPolicy", container.imagePullPolicy
    for index, volume in enumerate(pod.spec.volumes):
        if volume.image is not None and volume.image.pullPolicy != _ALWAYS:
            yield f"spec.volumes[{index}].image.pullPolicy", volume.image.pullPolicy or ""
