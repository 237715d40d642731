"""What the scheduler counts."""

from dataclasses import dataclass


@dataclass(slots=True)
class SchedulerStats:
    scheduled: int = 0
    unschedulable: int = 0
    errors: int = 0
    bound: int = 0
    deciding_s: float = 0.0
    """Spent on finding nodes."""

    def decided(self, seconds: float, is_placed: bool) -> None:
        self.deciding_s += seconds
        if is_placed:
            self.scheduled += 1
        else:
            self.unschedulable += 1


__all__ = ["SchedulerStats"]
