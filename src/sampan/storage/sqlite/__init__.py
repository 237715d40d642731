"""The embedded backend: one SQLite file in the data directory, owned by one process. Kubernetes has no counterpart.

| module | purpose |
|---|---|
| backend | `SqliteBackend`: the contract, composed on the event loop; the lock that excludes a second process |
| commits | group commit: concurrent writes share one transaction; threads that report to the event loop |
| log | the writer: the rows that a batch of writes produces, and transactions |
| reserve | disk space that is kept back for the deletions that free a full disk |
| reader | the readers: get, range, count and the log, each at one revision, and their threads |
| upkeep | compaction, releasing disk space |
| schema | the driver, the tables, their format version, and migrations from older formats |

The driver is that of the standard library. apsw took a tenth less CPU in group commits (in transactions of 16: 19.3
instead of 23.5 µs per write of 1 KB, 26.9 instead of 29.5 µs for 3.5 KB), too little to justify another dependency.
"""

from sampan.storage.sqlite.backend import InUse, SqliteBackend, SqliteConfig
from sampan.storage.sqlite.schema import FormatError

__all__ = ["FormatError", "InUse", "SqliteBackend", "SqliteConfig"]
