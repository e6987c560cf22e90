"""Requests on their way to the engine: who has a slot, who waits, and what comes back."""
