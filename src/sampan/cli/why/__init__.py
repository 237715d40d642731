"""`sampan why`: explain why a pod is pending or where it is bound, and what it waits for.

`asking` requests the explanation of the scheduler, `verdicts` formats it as tables, `waiting_for` lists what a bound
pod still lacks, and `members` finds the pods of a workload. Responses are untyped values, as in `sampan kubectl`.
"""

from sampan.cli.why.command import command

__all__ = ["command"]
