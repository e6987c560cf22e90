"""Cases of the self test, by family of operations."""
