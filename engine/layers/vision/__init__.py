"""Layers of vision towers."""
