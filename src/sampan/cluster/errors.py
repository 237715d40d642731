"""Failures of a cluster as a whole."""

from __future__ import annotations


class ClusterError(ValueError):
    """A cluster cannot be started or changed as configured. The message names the flag, file or port."""
