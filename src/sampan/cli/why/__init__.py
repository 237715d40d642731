"""`sampan why`: explain why a pod is pending or where it is bound, and what it waits for.

`explanation_source` requests the explanation of the scheduler, `explanation_text` formats it as tables, and
`workload_pods` finds the pods of a workload. What a bound pod lacks and what disrupted it is computed by
`sampan.diagnosis`. Responses are untyped values, as in `sampan kubectl`.
"""

from sampan.cli.why.command import command

__all__ = ["command"]
