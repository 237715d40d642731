"""Tables: what `kubectl get` shows, made from the columns that a kind's strategy declares.

`cells` is what the columns of several kinds share, `columns` how columns are described to clients, `table` how objects
become rows. What a single kind shows belongs to its own module in `registry/kinds`.
"""
