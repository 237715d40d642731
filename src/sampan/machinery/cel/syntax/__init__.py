"""Parsing of expressions: lexer, literals, parser and macros (cel-go's `parser` package)."""
