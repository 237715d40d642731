"""The storage backend for an etcd v3 cluster, `EtcdBackend` (compare `k8s.io/apiserver/pkg/storage/etcd3`).

Keys and values are those of kube-apiserver, so that data can be migrated in both directions. Importing this package
loads grpc and protobuf (about 100 ms), which happens only with `--etcd-servers`. It may import
`sampan.storage.backend`.

The modules:

    backend       composition and lifetime
      reader      get, range, count
      writer      put, delete; resolves writes whose response was lost
      feed        one watch over everything, the recent events, routes to the watches of this process
      stream      the gRPC stream below the feed: reconnects, resumes, reassembles fragments
      client      a call to one member; attempts: how often, how long
      endpoints   a connection to each member, used round robin
      faults, verdict, wire, log, routes, version: pure
"""

from sampan.storage.etcd.backend import EtcdBackend
from sampan.storage.etcd.client import Timeouts

__all__ = ["EtcdBackend", "Timeouts"]
