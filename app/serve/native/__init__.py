"""What monitors and llama-server's clients ask."""
