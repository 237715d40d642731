"""Tables, which `kubectl get` shows, generated from the columns that a kind's strategy declares.

`cells` are shared by the columns of several kinds, `columns` describes columns to clients, `table_writer` converts
objects to rows. The columns of a single kind belong to its module in `registry/kinds`. The counterpart is
`pkg/printers`.
"""
