"""Weights as devices want them, kept in files from one run to the next."""
