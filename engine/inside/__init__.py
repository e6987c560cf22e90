"""Inspection of a running model: its graph, and everything it computes."""
