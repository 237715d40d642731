"""Every bound on the size of input from users, nodes and images, in one place.

A bound belongs here when someone outside the cluster's own code decides how large something becomes: a request body, a
decoded document, a stored object, a warning, an image's header. Limits on connections and timeouts of the HTTP server
are in `sampan.apiserver.http.connection_limits`, because flags set them. Values are those of the Kubernetes components
where they have one.
"""

from typing import Final

# -- request bodies and decoding -------------------------------------------------------------------------------------

REQUEST_BODY_BYTES: Final = 3 << 20
"""The largest request body. kube-apiserver rejects more than 3 MiB with 413 Request Entity Too Large."""

DECODED_BODY_BYTES: Final = REQUEST_BODY_BYTES
"""The largest JSON form of a YAML body. Aliases and merge keys repeat content that the body has only once, so that a
small body can expand to gigabytes; the expanded form may be no larger than a body that is written out."""

BODY_VALUES: Final = 250_000
"""The maximum number of values in a body; an object or array counts twice, and in YAML a key counts as a value. An
empty object takes 3 bytes of JSON and up to a kilobyte of memory, so that 3 MiB could take a gigabyte. An object that
can be stored has that many only if they take 6 bytes each, including their keys."""

ALIASED_VALUES: Final = 50_000
"""How many values the aliases and merge keys of a YAML body may expand to. They cost their sender nothing and the
server a few microseconds each. kube-apiserver bounds their share of the document, from 400,000 values on."""

INLINE_YAML_BYTES: Final = 4 << 10
"""The largest YAML body that is decoded on the event loop, which takes a few milliseconds."""

INLINE_BODY_BYTES: Final = 64 << 10
"""The largest JSON or protobuf body that is decoded on the event loop. It takes about a millisecond; larger bodies are
handled in a worker thread, so that they do not delay other requests."""

INLINE_OBJECT_BYTES: Final = 128 << 10
"""The largest stored object that a write changes on the event loop; larger ones are handled in the worker thread."""

LARGE_BODY_BYTES: Final = 256 << 10
"""The largest JSON or protobuf body, and the largest stored object, that takes a worker thread less than a tenth of a
second. Larger ones, and YAML above `INLINE_BODY_BYTES`, have a thread of their own."""

WORKER_JOBS_PER_USER: Final = 32
"""How many requests of one user may use or wait for one of the worker threads for large objects. They occupy seats of
priority and fairness meanwhile, and the queue must not take all of them."""

WORKER_BYTES_PER_USER: Final = 32 << 20
"""How many bytes these requests may have together. Every body is in memory until its turn comes."""

STRICT_ERRORS: Final = 100
"""How many unknown or duplicate fields of one body are reported. kube-apiserver's JSON decoder stops at 100 as well."""

STRICT_ERROR_LENGTH: Final = 4096
"""The longest field path in a strict decoding error, in characters. Keys can be as long as a body, and each of 100
errors repeats them; a Warning header truncates anything longer than 4096 characters to 256 anyway."""

QUERY_PARAMETERS: Final = 1_000
"""The maximum number of parameters of a request, which are parsed on the event loop. Only the arguments of exec are as
many."""

ACCEPT_CHARACTERS: Final = 8 << 10
"""How much of an Accept header is read. Each of its clauses is parsed and sorted on the event loop; headers of clients
have a few hundred characters."""

SELECTOR_CHARACTERS: Final = 16 << 10
"""The longest label or field selector in text form. A request line has room for 128 kB, and a review for 3 MB, which
would take a second to parse and megabytes for each watch."""

SELECTOR_REQUIREMENTS: Final = 1_000
"""How many requirements a selector may have. Selectors that people write have a few."""

WATCHES_PER_USER: Final = 5_000
"""How many watches a user may have open. Each takes memory for its connection and its queue."""

WATCH_SELECTOR_CHARACTERS_PER_USER: Final = 256 << 10
"""How long the long selectors of a user's open watches may be together. A character takes about 30 bytes of memory."""

INLINE_SELECTOR_CHARACTERS: Final = 1 << 10
"""The longest selector that is parsed on the event loop, which takes a millisecond; longer ones are parsed in a worker
thread."""

# -- patches ---------------------------------------------------------------------------------------------------------

PATCH_SHIFTED_ITEMS: Final = 100_000_000
"""How many items the operations of one JSON patch may shift by inserting and removing before them. 10,000 operations at
the start of a list of a million items would move ten billion."""

PATCH_REPEATED_ITEMS: Final = 50_000
"""How many fields and items a strategic merge patch may process again because it names the same list item twice. Each
repetition merges the whole item, so the cost of a patch could be quadratic in its size."""

# -- stored objects --------------------------------------------------------------------------------------------------

STORED_OBJECT_BYTES: Final = 3 << 19
"""The largest object that is stored, in bytes of its JSON without escapes. etcd rejects requests above 1.5 MiB
(--max-request-bytes); every storage backend rejects the same objects, so that none accepts what another cannot hold."""

# -- responses, warnings and audit -----------------------------------------------------------------------------------

WARNINGS_LENGTH: Final = 4096
"""How many characters the warnings of a response may have in total before each of them is truncated, as in
kube-apiserver."""

WARNING_LENGTH: Final = 256
"""The length that each warning of a response is truncated to once all of them together exceed `WARNINGS_LENGTH`."""

AUDITED_VALIDATION_FAILURES: Final = 50
"""How many failed validations of admission policies the audit annotation of one request lists."""

STATIC_MANIFESTS: Final = 1000
STATIC_MANIFESTS_BYTES: Final = 16 << 20
"""How many objects the manifests of an admission plugin may have, and how large they may be together: they are read on
the event loop, and checked for every request."""

AUDIT_LINE_BYTES: Final = 8 << 20
"""The largest line of the audit log. It has room for any request body and the object in its response; a list that does
not fit is omitted, and the line is marked as truncated."""

INLINE_GZIP_BYTES: Final = 16 << 10
"""The largest piece of a response that is compressed on the event loop; larger ones are compressed in a thread, since
zlib does not hold the interpreter lock."""

VALIDATION_ERRORS: Final = 10_000
"""The maximum number of errors that are collected for one object. Objects that people write have a few dozen at most;
some rules compare each item of one list with each of another, and would report millions."""

VALIDATION_ERROR_CHARACTERS: Final = 1 << 20
"""The maximum size of the error messages in a response. An error may show a whole list, and there may be one for each
of its items: 100 kB of body would become gigabytes."""

PAIR_WARNINGS: Final = 256
"""The maximum number of warnings about pairs of items in one list (ports, file paths). kube-apiserver sends no more
than 4 KiB of warnings, which a quarter of this number fills, so a client sees no difference."""

COMPARED_LINES: Final = 1_000
"""The maximum length, in lines of JSON, of the parts of a pod for which a minimal diff is computed. Longer ones are
compared at their ends only; a pod that people write has a few hundred lines."""

OWNERS_PER_OBJECT: Final = 1_000
"""How many owner references an object may have to be garbage collected. Each owner that does not exist has to be looked
up, and an object has room for 15,000 of them. An object with more is kept, whatever becomes of its owners."""

# -- roles -----------------------------------------------------------------------------------------------------------

TOKEN_AUDIENCES: Final = 1_000
"""How many audiences a TokenRequest or TokenReview may name. Every authenticator compares them, and lists them in
errors."""

TOKEN_AUDIENCE_CHARACTERS: Final = 64 << 10
"""How long the audiences of a token may be together. A longer token would not fit into a header."""

RBAC_ERROR_CHARACTERS: Final = 8 << 10
"""How long the errors about missing roles may be, which are repeated in every refused request of a user."""

INLINE_RULE_WORDS: Final = 4_000
"""How many words the rules of a user and the granted ones may have together to be compared on the event loop, in up to
10 milliseconds. The default roles have some 1,500 words."""

RESOLVED_RULE_WORDS: Final = 20_000
"""How many words the rules in a SelfSubjectRulesReview may have; the review is incomplete beyond that. A hundred
bindings can repeat a role as large as an object; a user of a large cluster has a few thousand words."""

REVIEWED_GROUPS: Final = 10_000
"""How many groups an access review may name. Each is looked up several times; identity providers send a few thousand at
most."""

RBAC_COMPARISONS: Final = 200_000
"""The maximum number of rule comparisons in one check for privilege escalation. Rules that people write take a few
dozen; rules that are constructed to take more are rejected."""

MISSING_RULES_CHARACTERS: Final = 1 << 16
"""The longest list of missing permissions in a response. A role of a few kilobytes can name billions of them."""

PROXIED_PAGE_BYTES: Final = 4 << 20
"""The largest HTML page, uncompressed, whose links the proxies rewrite. A page of 4 MiB takes a thread up to two
seconds; larger pages are passed on unchanged."""

AGGREGATED_RESPONSE_BYTES: Final = 64 << 20
"""The largest response of an aggregated API server that is buffered, such as a list of all pods' metrics in a large
cluster."""

OPENAPI_INDEX_BYTES: Final = 1 << 20
"""The largest index of OpenAPI v3 documents that is read from an aggregated API server."""

OPENAPI_DOCUMENT_BYTES: Final = 16 << 20
"""The largest OpenAPI v2 document that is read from an aggregated API server. That of a whole Kubernetes has 5 MB."""

MERGED_OPENAPI_BYTES: Final = 4 << 20
"""The largest part of an aggregated API server's OpenAPI v2 document that is merged: the paths of its group version and
the definitions that they use."""

MERGED_OPENAPI_VALUES: Final = 100_000
"""The maximum number of values in the part of an OpenAPI v2 document that is merged. The document of a whole Kubernetes
has 130,000."""

MERGED_OPENAPI_DEPTH: Final = 200
"""The deepest nesting of objects and lists in a path or definition of an OpenAPI v2 document that is merged."""

WEBHOOK_RESPONSE_BYTES: Final = 64 << 20
"""The largest response of an admission or conversion webhook. A list of custom resources is converted as a whole."""

KUBELET_SUMMARY_BYTES: Final = 16 << 20
"""The largest stats summary of a kubelet. One of 500 pods has about 2 MB; a hostile kubelet could send any amount."""

# -- expressions and patterns ----------------------------------------------------------------------------------------

CEL_COST: Final = 1_000_000
"""The cost limit of one evaluation of a CEL expression, about 0.1 s in kube-apiserver, which has the same limit.
Everything that builds strings and lists costs in proportion to their size, so this bounds the memory of an evaluation
too."""

CUSTOM_RULES_COST: Final = 10_000_000
"""The cost that the validation rules of one custom object may have together when it is written."""

CUSTOM_RULE_ESTIMATE: Final = 10_000_000
"""The largest estimated cost of a validation rule in a CustomResourceDefinition, for all values that it applies to."""

CUSTOM_SCHEMA_ESTIMATE: Final = 100_000_000
"""The largest estimated cost of all validation rules of a schema."""

CUSTOM_ALTERNATIVES: Final = 250_000
"""How many times the values of one custom object may be checked against schemas of anyOf, oneOf, allOf and not. This
many checks take about a second."""

CUSTOM_SCHEMA_DEPTH: Final = 100
"""How deep schemas of a custom resource may be nested: each level takes interpreter frames."""

DEVICE_SELECTOR_COST: Final = 1_000_000
"""The cost limit of a device selector, estimated when it is written and enforced when it is evaluated."""

CEL_POLICY_COST: Final = 10_000_000
"""The cost limit of all expressions of an admission policy for one request together."""

DEVICE_SELECTOR_BYTES: Final = 10 << 10
"""The longest expression of a device selector."""

CEL_SOURCE_CHARACTERS: Final = 100_000
"""The longest CEL expression; cel-go has the same default. A field may allow less: a device selector has 10 KiB."""

CEL_NESTING: Final = 100
"""How deep parentheses, brackets and arguments of a CEL expression may nest: each level takes interpreter frames."""

CEL_DEPTH: Final = 250
"""The maximum depth of a CEL expression's tree, to which long chains of operators and selections add. cel-go has the
same limit."""

CEL_CACHED_CHARACTERS: Final = 128 << 10
"""The number of characters that the sources of an environment's cached programs have together. A program takes up to
400 bytes for each character of its source, so the programs of one environment stay under 52 MiB."""

INLINE_CEL_CHARACTERS: Final = 512
"""The longest expression from a user that is compiled on the event loop, which takes up to 8 milliseconds."""

INLINE_CEL_COST: Final = 20_000
"""The cost limit of an evaluation on the event loop, which takes up to 20 milliseconds. An expression that exceeds it
is evaluated again in a worker thread, with its real limit. Estimates of the cost are no bound: an expression of a few
lines can build a list in which one inner list occurs a billion times."""

INLINE_EXPRESSIONS_BYTES: Final = 2 << 10
"""The largest body, and the largest stored object, of a kind with CEL expressions that is handled on the event loop:
validation compiles all of them. Larger ones are handled in the worker thread."""

PATTERN_CHARACTERS: Final = 16 << 10
"""The longest regular expression from a user: as long as a CEL expression of a policy that contains it may be."""

PATTERN_MEMORY_BYTES: Final = 2 << 20
"""The memory limit of RE2 for one pattern, its program and its state cache together; larger patterns are rejected."""

PATTERNS_CACHED: Final = 32
"""The number of compiled patterns in the cache: with the memory limit of each, they stay under 64 MiB."""

# -- certificates and keys -------------------------------------------------------------------------------------------

SIGNING_REQUEST_BYTES: Final = 256 << 10
"""The largest PEM signing request. One with an RSA key of 16384 bits and a thousand names has about 100 kB."""

# -- pods of hollow nodes --------------------------------------------------------------------------------------------

HOLLOW_CONTAINERS: Final = 250
"""How many containers a pod of a hollow node may have. Starting them one after the other, as init containers are, takes
time in proportion to the square of their number; the status of a pod with 2,000 is too large to be stored."""

HOLLOW_VALUE_CHARACTERS: Final = 4096
"""The longest annotation that describes a hollow container, except for its log. It applies to each container of the
pod, and the status of each may repeat it. A kubelet cuts termination messages at the same length."""

HOLLOW_ANNOTATION_ERRORS: Final = 20
"""How many invalid annotations of a pod for its hollow containers get an event."""

# -- images and containers -------------------------------------------------------------------------------------------

IMAGE_DOCUMENT_BYTES: Final = 4 << 20
"""The largest index, manifest or configuration of an image. Registries are required to accept manifests of 4 MiB."""

IMAGE_INDEX_DEPTH: Final = 4
"""How many nested indexes are followed to a manifest: a hostile registry could build a chain of any length."""

IMAGE_LAYERS: Final = 127
"""The maximum number of layers of an image. The overlay drivers of Docker and containerd support no more."""

IMAGE_LAYER_BYTES: Final = 64 << 30
"""The largest layer, compressed or uncompressed: a highly compressed layer could fill any disk."""

IMAGE_LAYER_RATIO: Final = 200
"""The maximum compression ratio of a layer larger than `IMAGE_LAYER_FREE_BYTES`. Ordinary layers have a ratio below 10;
gzip reaches 1000 with zeros."""

IMAGE_LAYER_FREE_BYTES: Final = 1 << 30
"""The uncompressed size up to which the ratio of a layer is not checked: small images with empty files are ordinary."""

IMAGE_LAYER_ENTRIES: Final = 1_000_000
"""The maximum number of entries of one layer or archive: each costs an inode and some 0.1 ms."""

IMAGE_PATH_BYTES: Final = 4096
"""The longest path of an entry or link target in a layer: PATH_MAX of Linux."""

IMAGE_PATH_DEPTH: Final = 255
"""The maximum depth of an entry's path in a layer: each level costs a system call for each entry."""

IMAGE_XATTRS: Final = 64
"""The maximum number of extended attributes of an entry in a layer."""

TAR_HEADER_BYTES: Final = 1 << 20
"""The largest extended header (PAX, GNU long name, sparse map) of an archive. Go's archive/tar has the same bound."""

REGISTRY_REDIRECTS: Final = 10
"""The maximum number of redirects of a registry that are followed, as in Go's HTTP client."""

REGISTRY_TOKEN_BYTES: Final = 1 << 20
"""The largest response of a registry's token service."""

CONTAINER_FILE_BYTES: Final = 1 << 20
"""The largest file of a container's root filesystem (/etc/passwd, /etc/group) that is read on the node."""

ENV_FILE_BYTES: Final = 64 << 10
"""The largest file in a volume from which environment variables are read (fileKeyRef)."""

EXPANDED_CHARACTERS: Final = 4 << 20
"""The maximum length of a container's environment, and of its arguments, after `$(VAR)` expansion: each variable may
contain the previous one twice. Linux accepts 2 MiB of both together unless the stack limit is raised."""

# -- watches and caches ----------------------------------------------------------------------------------------------

WATCH_SEND_BYTES: Final = 64 << 10
"""How many bytes one send takes from a watcher's queue. TLS copies them into buffers of the connection, and accepts two
such sends before it is clear that the client does not read."""
WATCHER_EVENTS: Final = 1_000
"""How many events a watcher whose client does not read may have queued; kube-apiserver's watch cache allows 100 to
1,000."""
WATCHER_BYTES: Final = 8 << 20
"""How many bytes a watcher whose client does not read may have queued."""
WATCHER_BLOCKED_S: Final = 0.05
"""How long a watcher may exceed `WATCHER_EVENTS` or `WATCHER_BYTES` without reading: the time budget of
kube-apiserver's watch cache."""
WATCHER_CONGESTED_S: Final = 30.0
"""How long a watcher may make no progress before it is disconnected, because it occupies buffers of the server."""
MAX_WATCHER_EVENTS: Final = 10_000
"""How many events a watcher may have queued even if its client reads: the queue takes 8 bytes for each of them."""
MAX_WATCHER_BYTES: Final = 64 << 20
"""How many bytes a watcher may have queued even if its client reads."""
WATCH_BUDGET_BYTES: Final = 64 << 20
"""How many bytes all watchers of a server together may hold in queues and buffers; an event in many queues counts
once."""
WATCH_PRESSURE_BYTES: Final = 16 << 20
"""The number of bytes held for watchers from which on events are sent without pauses, so that writers, which share the
event loop, cannot outrun watchers."""
HISTORY_BYTES: Final = 96 << 20
"""The size of the history of all watch caches together: about 75 seconds, as in kube-apiserver, at 600 writes a
second."""
HISTORY_EVENTS: Final = 50_000
"""The number of events in the history of one resource; kube-apiserver's watch cache grows to 102,400 events."""
HISTORY_AGE_S: Final = 600.0
"""The maximum age of history. After this time the storage has compacted the revisions: a client that was away for
longer must list again."""
HISTORY_REPLAYED: Final = 1_000
"""How many revisions a watch cache replays from the storage log when it starts, so that clients can resume watches."""

# -- the network -----------------------------------------------------------------------------------------------------

SERVICE_ADDRESS_PORTS: Final = 50_000
"""How many pairs of a port and an address or source range of a service a node has rules for. kube-proxy multiplies them
without a limit: a service of 80 KB can have 640,000 pairs, and one of the largest size a hundred million."""

SERVICE_TARGET_PORTS: Final = 50_000
"""How many ports the endpoints of a service have together, counting pods with the same ports once. Pods beyond that are
left out. A service can have 15,000 ports, and each of its pods other numbers for them."""

SERVICE_ENDPOINT_PORTS: Final = 30_000
"""How many pairs of a port and an endpoint of a service a node has rules for. A service with 1,000 endpoints may use 30
ports."""

SERVICE_FREE_PAIRS: Final = 100
"""How many pairs of a port with an address, source range or endpoint each service may have that do not count against
`NODE_SERVICE_PAIRS`, so that nobody can take them away by creating services with very many."""

NODE_SERVICE_PAIRS: Final = 200_000
"""How many pairs beyond `SERVICE_FREE_PAIRS` a node has rules for, of all services with several ports together. A pair
takes about 400 bytes, and a service of 30 KB can have 50,000 of them."""

RELAYED_PORTS: Final = 4_096
"""How many ports of services a node without packet rules listens on: each takes a file descriptor of the process."""

SERVICE_SRV_RECORDS: Final = 10_000
"""How many SRV records a headless service has: each of its ports has one for each endpoint. A response has no room for
more than 1,500 of them."""

INGRESS_CLIENT_CONNECTIONS: Final = 512
"""How many connections a client address may have to the Ingress server of a node: half of all, so that no client can
lock out the others. Further ones get status 429 on the port for HTTP, and are closed on the port for HTTPS."""

INGRESS_CHAIN_BYTES: Final = 64 << 10
"""The largest certificate chain of an Ingress, as PEM. The server sends it to every client that connects, before any
request, and keeps it in memory until the client has read it."""

INGRESS_KEY_BITS: Final = 4096
"""The largest RSA key of an Ingress. Every handshake signs with it on the event loop, which takes 5 ms with 4,096 bits
and eight times as long with 8,192 bits. OpenSSL accepts up to 16,384 bits."""

NETWORK_POLICY_PEERS: Final = 4_000
"""How many peers, exceptions, ports and rules of a network policy a node uses in each direction; further ones allow
nothing. Every node reads a policy on its event loop, at about 10 microseconds for each peer."""
