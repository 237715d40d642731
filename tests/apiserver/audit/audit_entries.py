"""Builders of audit log entries."""

from sampan.apiserver.audit.event import AuditBody, AuditEntry, AuditEvent


def entry(id: str = "1", **bodies: AuditBody | None) -> AuditEntry:
    event = AuditEvent(
        kind="Event",
        apiVersion="audit.k8s.io/v1",
        level="Metadata",
        auditID=id,
        stage="RequestReceived",
        requestURI="/",
        verb="get",
        user={"username": "may"},
        requestReceivedTimestamp="",
        stageTimestamp="",
    )
    return AuditEntry(event, **bodies)  # type: ignore[arg-type]
