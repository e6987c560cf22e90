"""Routes for monitors and llama-server's clients."""
