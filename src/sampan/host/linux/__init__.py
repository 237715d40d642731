"""Interfaces to the Linux kernel and the C library that several components use: namespaces, programs, limits and
memory."""
