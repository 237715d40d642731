"""Static analysis: types, declarations, overload resolution and cost estimation (cel-go's `checker` package)."""
