"""Static analysis: types, declarations, overload resolution and the estimate of costs (cel-go's `checker` package)."""
