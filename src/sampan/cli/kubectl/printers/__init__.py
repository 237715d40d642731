"""The output formats of kubectl (cli-runtime's pkg/printers)."""
