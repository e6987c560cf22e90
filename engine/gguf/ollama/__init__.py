"""Files that Ollama converted itself."""
