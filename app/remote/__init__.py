"""Engines elsewhere: servers that speak the OpenAI interface, behind the same seam as our own."""
