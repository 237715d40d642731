"""podcertificaterequest-cleaner-controller, which deletes old PodCertificateRequests: certificates are issued faster
(`pkg/controller/certificates/cleaner/pcrcleaner.go`)."""

from sampan.api.types import certificates_v1, certificates_v1beta1
from sampan.api.values.times import parse_time
from sampan.controllers.descriptor import ControllerContext
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

MAX_AGE_S = 15 * 60.0

AnyPodCertificateRequest = certificates_v1.PodCertificateRequest | certificates_v1beta1.PodCertificateRequest


class PodCertificateCleanerController:
    name = "podcertificaterequest-cleaner-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, clock: Clock, kind: type[AnyPodCertificateRequest]
    ) -> None:
        self._requests, self._known, self._clock = client.for_kind(kind), informers.for_kind(kind).lister, clock
        self.watches = (Watch(resource_of(kind), lambda request: (key_of(request),)),)

    async def reconcile(self, key: NamespacedName) -> float | None:
        request = self._known.get_by_key(key)
        if request is None:
            return None
        meta = request.metadata
        remaining_s = parse_time(meta.creationTimestamp or "") + MAX_AGE_S - self._clock.now()
        if remaining_s > 0:
            return remaining_s
        try:
            await self._requests.delete(meta.name, meta.namespace, options=DeleteParameters(uid=meta.uid))
        except (errors.NotFound, errors.Conflict):
            return None  # Another request may have the name; its watch event triggers another sync.
        return None


def make(context: ControllerContext) -> PodCertificateCleanerController:
    version = certificates_v1 if context.config.feature_gates.level >= 37 else certificates_v1beta1
    return context.build(PodCertificateCleanerController, kind=version.PodCertificateRequest)
