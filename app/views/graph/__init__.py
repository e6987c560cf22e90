"""The splits of a token."""
