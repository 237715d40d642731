"""What several components ask of the Linux kernel and the C library: namespaces, programs, limits and memory."""
