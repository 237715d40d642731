"""The limits of a Deployment: pods above and below the desired number, deadline and history. Pure."""

from sampan.api.int_or_string import MAX_INT32, scaled
from sampan.api.types.apps_v1 import Deployment
from sampan.controllers.workloads.deployment.sets import wanted

ROLLING, RECREATE = "RollingUpdate", "Recreate"


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == ROLLING


def surge_and_missing(deployment: Deployment) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down) in pods.

    If both are 0, one pod may be unavailable, as the update could not proceed otherwise.
    """
    update, replicas = deployment.spec.strategy.rollingUpdate, wanted(deployment)
    surge = scaled((update and update.maxSurge) or 0, replicas, round_up=True)
    missing = scaled((update and update.maxUnavailable) or 0, replicas, round_up=False)
    return surge, missing if surge or missing else 1


def max_surge(deployment: Deployment) -> int:
    return surge_and_missing(deployment)[0] if is_rolling(deployment) else 0


def max_missing(deployment: Deployment) -> int:
    replicas = wanted(deployment)
    if not is_rolling(deployment) or not replicas:
        return 0
    return min(surge_and_missing(deployment)[1], replicas)


def most_pods(deployment: Deployment) -> int:
    return wanted(deployment) + max_surge(deployment)


def deadline_s(deployment: Deployment) -> int | None:
    """Return the progress deadline in seconds, or None if there is none."""
    seconds = deployment.spec.progressDeadlineSeconds
    return None if seconds == MAX_INT32 else seconds


def kept_sets(deployment: Deployment) -> int | None:
    """Return the revision history limit, or None if there is none."""
    limit = deployment.spec.revisionHistoryLimit
    return None if limit == MAX_INT32 else limit
