"""Layers placed by hand: devices as lanes, layers as tiles, and the rule as text."""
