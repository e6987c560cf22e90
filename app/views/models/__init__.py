"""Choosing a model, fetching one, and what is in its file."""
