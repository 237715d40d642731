"""What any daemon needs and Kubernetes does not define. Every package may import it, and it imports no other.

Time and tasks: `clock` is injected into every component, `activity` tells a virtual clock when all work is done;
`time_slice` divides the event loop among long work, `worker_thread` has threads for what would block it,
`background_tasks` the tasks that end with their owner, `backoff` the delays before retries, `keyed_locks` locks by
name, and `exception_groups` finds the exceptions inside a group.

Memory and files: `bounded_cache` has the caches for results that depend on user input, `durable_files` replaces files
as a whole.

The machine: `linux` has what the kernel and the C library offer (namespaces, programs, directory trees, limits),
`netlink` the conversations with the kernel about links, routes and packet rules.

Servers: `http` is the edge of all that speak HTTP.
"""
