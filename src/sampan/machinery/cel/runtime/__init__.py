"""Evaluation: values, operators, the cost meter and the compiler to closures (cel-go's `interpreter` package)."""
