"""Ollama's interface: chat, generate, embed, and what there is."""
