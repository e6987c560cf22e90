"""One module a family: its sizes, its vocabulary, and its weights laid out as GGUF files."""
