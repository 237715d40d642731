"""legacy-serviceaccount-token-cleaner-controller, which invalidates auto-generated tokens that were unused for a year.

Tokens that stay unused for another year are deleted.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from sampan.api.semantics.pod_references import secret_names
from sampan.api.types.core_v1 import ConfigMap, Pod, Secret, ServiceAccount
from sampan.api.values.times import parse_time
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.security.account_tokens import ACCOUNT_TOKEN_SELECTION, NAME_KEY, UID_KEY
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, PatchType, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
_SYNC_S = 24 * 3600.0
_ALL = "all"


def day_of(when: float) -> str:
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d}"


def read_day(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def is_unused(secret: Secret, since: float) -> bool:
    """Whether the secret was neither created nor used since then."""
    meta = secret.metadata
    if meta.deletionTimestamp is not None or parse_time(meta.creationTimestamp or "") >= since:
        return False
    used = meta.labels.get(LAST_USED)
    return used is None or (read_day(used) is not None and used < day_of(since))


def is_made_for(secret: Secret, account: ServiceAccount | None) -> bool:
    """Whether the service account lists the secret, as it does for auto-generated tokens."""
    if account is None or secret.metadata.annotations.get(UID_KEY, "") not in ("", account.metadata.uid):
        return False
    return any(ref.name == secret.metadata.name for ref in account.secrets)


class LegacyTokenCleanerController:
    name = "legacy-serviceaccount-token-cleaner-controller"
    initial_keys = (_ALL,)

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, unused_s: float) -> None:
        self._secrets, self._maps = client.for_kind(Secret), client.for_kind(ConfigMap)
        self._known = informers.for_kind(Secret, ACCOUNT_TOKEN_SELECTION).lister
        self._accounts, self._pods = informers.for_kind(ServiceAccount).lister, informers.for_kind(Pod).lister
        self._clock, self._unused_s = clock, unused_s
        self.watches = (
            Watch(resource_of(ServiceAccount)),
            Watch(resource_of(Secret), selection=ACCOUNT_TOKEN_SELECTION),
            Watch(resource_of(Pod)),
        )

    async def reconcile(self, key: str) -> float:
        now = self._clock.now()
        since = await self._read_tracking_start()
        if since is not None and now >= since + self._unused_s:
            for secret in list(self._known):
                await self._check_token(secret, now)
        return _SYNC_S

    async def _read_tracking_start(self) -> float | None:
        """Return the start of the day after token tracking was enabled in the API server, or None if tracking is not
        enabled."""
        try:
            tracking = await self._maps.get(TRACKING, "kube-system")
        except errors.NotFound:
            return None
        began = read_day(tracking.data.get("since", ""))
        return began + timedelta(days=1).total_seconds() if began is not None else None

    async def _check_token(self, secret: Secret, now: float) -> None:
        meta, since = secret.metadata, now - self._unused_s
        account = self._accounts.get(meta.annotations.get(NAME_KEY, ""), meta.namespace)
        if not is_unused(secret, since) or not is_made_for(secret, account):
            return
        if any(meta.name in secret_names(pod.spec) for pod in self._pods.list(meta.namespace)):
            return
        invalid_since = meta.labels.get(INVALID_SINCE, "")
        try:
            if read_day(invalid_since) is None:
                await self._mark(secret, day_of(now))
            elif invalid_since < day_of(since):
                options = DeleteParameters(resource_version=meta.resourceVersion)
                await self._secrets.delete(meta.name, meta.namespace, options=options)
        except (errors.Conflict, errors.NotFound):
            return

    async def _mark(self, secret: Secret, day: str) -> None:
        meta = secret.metadata
        patch = {"metadata": {"uid": meta.uid, "labels": {INVALID_SINCE: day}}}
        log.info("invalidated the unused service account token in Secret %s/%s", meta.namespace, meta.name)
        await self._secrets.patch(meta.name, patch, meta.namespace, type=PatchType.MERGE)


def make(context: ControllerContext) -> LegacyTokenCleanerController:
    return context.build(LegacyTokenCleanerController, unused_s=context.config.legacy_token_clean_up_period_s)
