"""The numbers in a model: its weights, what it computes, and what its caches hold."""
