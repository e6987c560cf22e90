"""gguf -> tokenizer -> graph -> memory -> scheduler -> backends -> weights -> models -> runner."""
