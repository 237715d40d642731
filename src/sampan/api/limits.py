"""Every bound on the size of input from users, nodes and images, in one place.

A bound belongs here when somebody outside the cluster's own code decides how large a thing becomes: a request body, a
decoded document, a stored object, a warning, an image's header. Limits on connections and times of the HTTP server
are in `sampan.apiserver.http.limits`, because flags set them. Values are those of the real components where they have
one.
"""

from typing import Final

# -- request bodies and decoding -------------------------------------------------------------------------------------

REQUEST_BODY_BYTES: Final = 3 << 20
"""The largest request body. The real API server refuses more than 3 MiB with 413 Request Entity Too Large."""

DECODED_BODY_BYTES: Final = REQUEST_BODY_BYTES
"""The largest JSON form of a YAML body. Aliases and merge keys repeat what the body has only once, so that a small body
can stand for gigabytes; the expanded form gets no more room than a body that is written out."""

BODY_VALUES: Final = 250_000
"""How many values a body may have; an object or array counts twice, and in YAML a key counts as a value. An empty
object takes 3 bytes of JSON and up to a kilobyte of memory, so that 3 MiB could take a gigabyte. An object that can be
stored has so many only if they take 6 bytes each, with their keys."""

ALIASED_VALUES: Final = 50_000
"""How many values the aliases and merge keys of a YAML body may stand for together. They cost their sender nothing and
the server a few microseconds each. The real server bounds their share of the document, from 400,000 values on."""

INLINE_YAML_BYTES: Final = 4 << 10
"""The largest YAML body that is decoded on the event loop, which takes a few milliseconds."""

INLINE_BODY_BYTES: Final = 64 << 10
"""The largest JSON or protobuf body that is decoded on the event loop. It takes about a millisecond; larger bodies are
handled in the worker thread, so that they delay nobody else."""

INLINE_OBJECT_BYTES: Final = 128 << 10
"""The largest stored object that a write changes on the event loop, by the same reasoning."""

STRICT_ERRORS: Final = 100
"""How many unknown or repeated fields of one body are reported. The real JSON decoder stops at 100 as well."""

STRICT_ERROR_LENGTH: Final = 4096
"""The longest field path in a strict decoding error, in characters. Keys can be as long as a body, and each of 100
errors repeats them; whatever is longer than 4096 characters is cut to 256 in a Warning header anyhow."""

# -- patches ---------------------------------------------------------------------------------------------------------

PATCH_SHIFTED_ITEMS: Final = 100_000_000
"""How many items the operations of one JSON patch may shift by inserting and removing in front of them. 10,000
operations at the start of a list of a million items would move ten billion."""

PATCH_REPEATED_ITEMS: Final = 200_000
"""How many fields and items a strategic merge patch may go through again because it names the same list item twice.
Each repetition merges the item as a whole, so a patch could cost the square of its size."""

# -- stored objects --------------------------------------------------------------------------------------------------

STORED_OBJECT_BYTES: Final = 3 << 19
"""The largest object that is stored, in bytes of its JSON without escapes. etcd refuses requests above 1.5 MiB
(--max-request-bytes); every store refuses the same objects, so that none accepts what another cannot hold."""

# -- responses, warnings and audit -----------------------------------------------------------------------------------

WARNINGS_LENGTH: Final = 4096
"""How many characters the warnings of a response have together before each of them is truncated, as in the real API
server."""

WARNING_LENGTH: Final = 256
"""The length that each warning is truncated to once a response has too many characters of them."""

AUDIT_LINE_BYTES: Final = 8 << 20
"""The largest line of the audit log. It has room for any request body and the object in its response; a list that does
not fit is left out, and the line says that it was truncated."""

INLINE_GZIP_BYTES: Final = 16 << 10
"""The largest piece of a response that is compressed on the event loop; larger ones are compressed in a thread, since
zlib does not hold the interpreter lock."""

VALIDATION_ERRORS: Final = 10_000
"""The most errors of one object that are collected. Objects that people write have a few dozen at most; some rules
compare each item of one list with each of another, and would find millions."""

VALIDATION_ERROR_CHARACTERS: Final = 1 << 20
"""How much text of errors an answer holds. An error may show a whole list, and there may be one for each of its items:
100 kB of body would become gigabytes."""

WARNINGS_OF_PAIRS: Final = 256
"""The most warnings about pairs of items in one list (ports, file paths). The real API server sends no more than 4 KiB
of warnings, which a quarter of this number fills, so a client sees no difference."""

COMPARED_LINES: Final = 1_000
"""How long the parts of a pod may be, in lines of JSON, between which the smallest difference is looked for. Longer
ones are compared at their ends only; a pod that people write has a few hundred lines."""

# -- roles -----------------------------------------------------------------------------------------------------------

RBAC_COMPARISONS: Final = 200_000
"""The most comparisons of sets of rules that one check for privilege escalation makes. Rules that people write take a
few dozen; only rules made to be compared in as many ways as possible take more, and those are refused."""

MISSING_RULES_CHARACTERS: Final = 1 << 16
"""The longest list of missing permissions in an answer. A role of a few kilobytes can name billions of them."""

PROXIED_PAGE_BYTES: Final = 4 << 20
"""The largest HTML page, uncompressed, whose links the proxies rewrite. One of 4 MiB takes a thread up to two seconds;
larger pages are passed on unchanged."""

AGGREGATED_RESPONSE_BYTES: Final = 64 << 20
"""The largest response of an aggregated API server, which is read as a whole: a list of all pods' metrics in a large
cluster."""

KUBELET_SUMMARY_BYTES: Final = 16 << 20
"""The largest summary of a kubelet. One of 500 pods has about 2 MB; a hostile kubelet could send any amount."""

# -- expressions and patterns ----------------------------------------------------------------------------------------

CEL_COST: Final = 1_000_000
"""What one evaluation of a CEL expression may cost, about 0.1 s in the real API server, which has the same limit. Since
whatever builds strings and lists costs in proportion to their size, this bounds the memory of an evaluation too."""

DEVICE_SELECTOR_COST: Final = 1_000_000
"""What a device selector may cost, estimated when it is written and counted when it is evaluated."""

DEVICE_SELECTOR_BYTES: Final = 10 << 10
"""The longest expression of a device selector."""

CEL_SOURCE_CHARACTERS: Final = 100_000
"""The longest CEL expression; cel-go has the same default. A field may allow less: a device selector has 10 KiB."""

CEL_NESTING: Final = 100
"""How deep parentheses, brackets and arguments of a CEL expression nest: each level takes frames of the interpreter."""

CEL_DEPTH: Final = 250
"""The depth of a CEL expression's tree, to which long chains of operators and selections add. cel-go has the same."""

PATTERN_CHARACTERS: Final = 16 << 10
"""The longest regular expression from a user: a CEL expression of a policy, which may contain it, is not longer."""

PATTERN_MEMORY_BYTES: Final = 2 << 20
"""What RE2 may allocate for one pattern, its program and its state cache together; larger patterns are refused."""

PATTERNS_CACHED: Final = 32
"""Compiled patterns that are kept: together with the memory of one, they stay under 64 MiB."""

# -- certificates and keys -------------------------------------------------------------------------------------------

SIGNING_REQUEST_BYTES: Final = 256 << 10
"""The largest PEM signing request. One with an RSA key of 16384 bits and a thousand names has about 100 kB."""

# -- images and containers -------------------------------------------------------------------------------------------

IMAGE_DOCUMENT_BYTES: Final = 4 << 20
"""The largest index, manifest or configuration of an image. Registries are required to take manifests of 4 MiB."""

IMAGE_INDEX_DEPTH: Final = 4
"""How many indexes may lead to one another before a manifest is found: a hostile registry could make a chain of any
length."""

IMAGE_LAYERS: Final = 127
"""The most layers of one image. Docker's and containerd's overlay drivers take no more."""

IMAGE_LAYER_BYTES: Final = 64 << 30
"""The largest layer, packed or unpacked: a well-packed layer could fill any disk."""

IMAGE_LAYER_RATIO: Final = 200
"""How many times its packed size a layer may unpack to, once it is larger than `IMAGE_LAYER_FREE_BYTES`. Ordinary
layers have a ratio below 10; gzip reaches 1000 with zeros."""

IMAGE_LAYER_FREE_BYTES: Final = 1 << 30
"""The unpacked size up to which the ratio of a layer is not looked at: small images with empty files are ordinary."""

IMAGE_LAYER_ENTRIES: Final = 1_000_000
"""The most entries of one layer or archive: each costs an inode and some 0.1 ms."""

IMAGE_PATH_BYTES: Final = 4096
"""The longest name of an entry or target of a link in a layer: PATH_MAX of Linux."""

IMAGE_PATH_DEPTH: Final = 255
"""The deepest path of an entry in a layer: each level costs a system call for each entry."""

IMAGE_XATTRS: Final = 64
"""The most extended attributes of one entry of a layer."""

TAR_HEADER_BYTES: Final = 1 << 20
"""The largest extended header (PAX, GNU long name, sparse map) of an archive. Go's archive/tar has the same bound."""

REGISTRY_REDIRECTS: Final = 10
"""The most redirects of a registry that are followed, as Go's HTTP client does."""

REGISTRY_TOKEN_BYTES: Final = 1 << 20
"""The largest answer of a registry's token service."""

CONTAINER_FILE_BYTES: Final = 1 << 20
"""The largest file of a container's root (/etc/passwd, /etc/group) that is read on the node."""

ENV_FILE_BYTES: Final = 64 << 10
"""The largest file of a volume that environment variables are taken from (fileKeyRef)."""

EXPANDED_CHARACTERS: Final = 4 << 20
"""How long the environment of a container, and its arguments, may become by `$(VAR)`: each variable may hold the one
before twice. Linux takes 2 MiB of both together unless the stack is made larger."""

# -- watches and caches ----------------------------------------------------------------------------------------------

WATCH_SEND_BYTES: Final = 64 << 10
"""What one send takes from a watcher's queue: TLS copies it into buffers of the connection, and takes two such sends
before it is clear that the client does not read."""
WATCHER_EVENTS: Final = 1_000
"""What a watcher whose client does not read may leave queued; the real watch cache gives a watcher 100 to 1,000."""
WATCHER_BYTES: Final = 8 << 20
"""The same in bytes, for large objects."""
WATCHER_BLOCKED_S: Final = 0.05
"""How long a watcher may exceed those two bounds without reading: the time budget of the real watch cache."""
WATCHER_CONGESTED_S: Final = 30.0
"""After this time without any progress a client holds buffers of the server for nothing and is disconnected."""
WATCHER_MOST_EVENTS: Final = 10_000
"""What a watcher may leave queued even if its client would read: the queue costs 8 bytes for each of them."""
WATCHER_MOST_BYTES: Final = 64 << 20
"""The same in bytes."""
WATCH_BUDGET_BYTES: Final = 64 << 20
"""What all watchers of a server together may hold in queues and buffers; an event queued by many counts once."""
WATCH_PRESSURE_BYTES: Final = 16 << 20
"""From here on events are sent without pauses, so that writers, who share the event loop, cannot outrun watchers."""
HISTORY_BYTES: Final = 96 << 20
"""The history of all watch caches together: about 75 seconds, what the real cache keeps, at 600 writes a second."""
HISTORY_EVENTS: Final = 50_000
"""The history of one resource; the real watch cache grows to 102,400 events."""
HISTORY_AGE_S: Final = 600.0
"""History that the store has compacted by now is of no use: a client that was away for so long must list again."""
HISTORY_REPLAYED: Final = 1_000
"""Revisions that a watch cache replays from the store's log when it starts, so that clients can resume watches."""
