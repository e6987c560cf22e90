"""How a word came to be: what is asked of the engine about it, and what that says."""
