"""Drivers and devices: found, loaded, described."""
