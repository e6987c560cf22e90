"""Layers placed by hand: what lies where, as it is edited, priced and applied."""
