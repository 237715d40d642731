"""Pure computation of activeDeadlineSeconds."""

from sampan.api import times
from sampan.api.types.core_v1 import Pod, PodStatus
from sampan.kubelet.pod_status import Verdict

EXCEEDED = Verdict(reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline")


def deadline_left_s(pod: Pod, status: PodStatus, now: float) -> float | None:
    """Return the seconds until the pod exceeds its deadline, at most 0 once it has, or None without a deadline."""
    if pod.spec.activeDeadlineSeconds is None or status.startTime is None:
        return None
    return times.parse_time(status.startTime) + pod.spec.activeDeadlineSeconds - now
