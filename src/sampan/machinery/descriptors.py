"""The limit on open file descriptors of the process."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

_UNBOUNDED = 1 << 20
"""The value used for a limit of "unlimited": the kernel's default upper bound (fs.nr_open)."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard limit, as programs written in Go do, and return the new limit.

    The usual soft limit of 1,024 exists for programs that use select(), which the server and its components do not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    desired = _UNBOUNDED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < desired:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (desired, hard))
        except (OSError, ValueError) as error:
            log.debug("cannot raise the limit on open files from %d to %d: %s", soft, desired, error)
        else:
            log.debug("raised the limit on open files from %d to %d", soft, desired)
    return descriptor_limit()


def descriptor_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNBOUNDED if soft == resource.RLIM_INFINITY else soft
