"""Logs of containers: `lines` reads a line in CRI's or Docker's form, `shown` says what of it is shown, both pure;
`reading` reads and follows a file, `watching` tells when one has changed, `source` says which container's log is meant
and why there is none, `rotation` puts aside what has grown large."""
