"""Recorded answers: where their time went, and what the devices could do."""
