"""How a word came to be: the requests about it, and their results."""
