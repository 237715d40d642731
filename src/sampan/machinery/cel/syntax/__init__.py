"""From the text of an expression to its tree: lexer, literals, parser and macros (cel-go's `parser` package)."""
