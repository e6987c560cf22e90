"""Anthropic's interface: messages, and their tokens counted."""
