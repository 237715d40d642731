"""The store on a real etcd v3 cluster: `EtcdBackend`.

Keys and values are those of the real API server, so that data can move in both directions. Importing this package loads
grpc and protobuf (about 100 ms); only whoever was given `--etcd-servers` does. May import `sampan.storage.backend`.

How the parts stand to each other:

    backend     composition and lifetime
      reader    get, range, count                     writer   put, delete; judges writes whose answer was lost
      feed      one watch over everything, the last events, routes to the watches of this process
      stream    the gRPC stream below the feed: reconnects, resumes, puts fragments together
      client    a call to some member; attempts: how often, how long
      endpoints a connection to each member, the next ready one in turn
      faults, verdict, wire, log, routes, version: pure
"""

from sampan.storage.etcd.attempts import Timeouts
from sampan.storage.etcd.backend import EtcdBackend

__all__ = ["EtcdBackend", "Timeouts"]
