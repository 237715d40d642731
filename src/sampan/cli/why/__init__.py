"""`sampan why`: explain why a pod is pending or where it is bound, and what it waits for.

`explanation_source` requests the explanation of the scheduler, `explanation_text` formats it as tables,
`missing_parts` lists what a bound pod still lacks, `disruptions` explains preemption, evictions and disruption budgets
from what `disruption_source` reads, and `workload_pods` finds the pods of a workload. Responses are untyped values, as
in `sampan kubectl`.
"""

from sampan.cli.why.command import command

__all__ = ["command"]
