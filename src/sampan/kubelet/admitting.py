"""Admits or rejects pods bound to a node, and preempts other pods for critical ones."""

from __future__ import annotations

from sampan.api.types.core_v1 import Pod
from sampan.kubelet import admission, preemption
from sampan.kubelet.critical import is_critical
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_status import Verdict, rejected
from sampan.kubelet.records import PodRecord, Records, Stage
from sampan.kubelet.status_manager import StatusManager
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING


class Admitting:
    def __init__(self, *, records: Records, statuses: StatusManager, events: PodEvents, clock: Clock) -> None:
        self._records, self._statuses, self._events, self._clock = records, statuses, events, clock

    def admit(self, record: PodRecord) -> list[PodRecord] | None:
        """Admit or reject the pod. Return the pods preempted for it, whose termination the caller must dispatch, or
        None if it was rejected. A pod that already has container statuses was admitted before and is not checked again.
        """
        requests, ended = admission.amounts_of(record.pod), list[PodRecord]()
        if not record.pod.status.containerStatuses:
            if (verdict := self._refusal(record, requests)) is not None:
                verdict, ended = self._in_place_of_others(record, requests, verdict)
            if verdict is not None:
                self.reject(record, verdict)
                return None
        record.count(requests)
        return ended

    def _refusal(self, record: PodRecord, wanted: admission.Amounts) -> Verdict | None:
        kubelet = record.kubelet
        if kubelet.provision is not None and (refused := kubelet.provision.refusal(record.pod)) is not None:
            return refused
        ports = frozenset[tuple[str, str, int]]()
        if admission.ports_of(record.pod):
            ports = frozenset().union(*(admission.ports_of(pod) for pod in self._others(record)))
        return admission.admit(record.pod, kubelet.node, wanted, kubelet.used, len(kubelet.pods), ports)

    def _in_place_of_others(
        self, record: PodRecord, wanted: admission.Amounts, verdict: Verdict
    ) -> tuple[Verdict | None, list[PodRecord]]:
        """Preempt other pods if a critical pod was rejected for lack of resources. Return the remaining rejection, if
        any, and the preempted pods.
        """
        kubelet = record.kubelet
        if not is_critical(record.pod) or not admission.is_for_want_of_room(verdict):
            return verdict, []
        lacking = admission.lacking(kubelet.node, wanted, kubelet.used, len(kubelet.pods))
        victims = preemption.victims(record.pod, self._others(record), lacking)
        if victims is None:
            return preemption.no_room(lacking), []
        ended = [self._records[pod.metadata.uid] for pod in victims]
        for victim in ended:
            self._events.pod(kubelet, victim.pod, WARNING, preemption.PREEMPTED.reason, preemption.PREEMPTED.message)
            victim.verdict = preemption.PREEMPTED
            victim.free()
        return None, ended

    def _others(self, record: PodRecord) -> list[Pod]:
        return [self._records[uid].pod for uid in sorted(record.kubelet.pods) if uid in self._records]

    def reject(self, record: PodRecord, verdict: Verdict) -> None:
        self._events.pod(record.kubelet, record.pod, WARNING, verdict.reason, verdict.message)
        record.stage = Stage.TERMINATED
        self._statuses.set_pod_status(record, rejected(record.pod, verdict, self._clock.now()))
        self._statuses.finish(record)
