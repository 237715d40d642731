"""Why something could not be taken, in the real server's words."""


class AllocationError(Exception):
    """It cannot be had. The message is for the client."""


class RangeFull(AllocationError):
    def __init__(self) -> None:
        super().__init__("range is full")
