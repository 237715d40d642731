"""LeaseCandidate: a candidate of a coordinated leader election."""

from sampan.apiserver.registry.behavior import GenericStrategy, ResourceBehavior
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables.columns import AGE, NAME


class LeaseCandidateStrategy(GenericStrategy):
    columns = (
        NAME,
        Column("LeaseName", lambda candidate, now: candidate.spec.leaseName, field="spec.leaseName"),
        Column("BinaryVersion", lambda candidate, now: candidate.spec.binaryVersion),
        Column("EmulationVersion", lambda candidate, now: candidate.spec.emulationVersion),
        AGE,
    )


BEHAVIOR = ResourceBehavior(
    strategy=LeaseCandidateStrategy(has_status=False, allow_create_on_update=True, allow_unconditional_update=False)
)
