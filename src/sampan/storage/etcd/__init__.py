"""The storage backend for an etcd v3 cluster, `EtcdBackend` (compare `k8s.io/apiserver/pkg/storage/etcd3`).

Keys and values are those of kube-apiserver, so that data can be migrated in both directions. Importing this package
loads grpc and protobuf (about 100 ms), which happens only with `--etcd-servers`. It may import
`sampan.storage.backend`.

The modules:

    backend       composition and lifetime
      reader      get, range, count, and the oldest available revision
      writer      put, delete, leases; resolves writes whose response was lost
      watch       a watch of this process: its position and its queue
      feed        one etcd watch over everything, the recent events, routes to the watches of this process
      stream      the gRPC stream below the feed: reconnects, resumes, reassembles fragments
      compaction  periodic compaction, which several API servers share
      client      requests: attempts, timeouts, classification of failures
      endpoints   a connection to each member, used round robin
      wire        conversion between the types of the contract and the messages of etcd
      proto       the messages of etcd
"""

from sampan.storage.etcd.backend import EtcdBackend
from sampan.storage.etcd.client import EtcdTimeouts

__all__ = ["EtcdBackend", "EtcdTimeouts"]
