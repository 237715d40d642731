"""`sampan why`: why a pod is pending, or why it is where it is, and what it waits for next.

`asking` gets the scheduler's explanation, `verdicts` turns it into tables, `waiting_for` tells what a pod that has a
node still lacks, `members` finds the pods of a workload. Servers' answers are plain values, as in `sampan kubectl`.
"""

from sampan.cli.why.command import command

__all__ = ["command"]
