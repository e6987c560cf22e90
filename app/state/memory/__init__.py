"""Planned and allocated memory."""
