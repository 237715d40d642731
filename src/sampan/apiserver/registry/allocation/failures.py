"""Errors of allocation, with the messages of kube-apiserver."""


class AllocationError(Exception):
    """Raised when a value cannot be allocated. The message is for the client."""


class RangeFull(AllocationError):
    def __init__(self) -> None:
        super().__init__("range is full")
