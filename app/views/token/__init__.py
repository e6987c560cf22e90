"""The Token view: how a word came to be."""
