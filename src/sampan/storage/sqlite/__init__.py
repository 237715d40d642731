"""The embedded store: one SQLite file in the data directory, owned by one process.

| module | what it is |
|---|---|
| backend | `SqliteBackend`: the contract, put together on the event loop |
| commits | group commit: writes that arrive together share one transaction |
| log, plan | the writer's side: transactions; what a batch of writes comes to |
| reader, readers | the readers' side: get, range, count and the log, each at one revision; and their threads |
| upkeep | compaction, giving space back |
| schema | the tables, their format version, and how old files are brought up to it |
| owner | the lock that keeps a second process out |
| worker | threads that report to the event loop |
| driver | the little that is used of a SQLite driver |

The driver is the standard library's. apsw took a tenth less CPU in group commits (in transactions of 16: 19.3 against
23.5 µs for each write of 1 KB, 26.9 against 29.5 µs for 3.5 KB), too little to be worth another dependency.
"""

from sampan.storage.sqlite.backend import SqliteBackend, SqliteConfig
from sampan.storage.sqlite.owner import InUse
from sampan.storage.sqlite.schema import FormatError

__all__ = ["FormatError", "InUse", "SqliteBackend", "SqliteConfig"]
