"""Tools in the window."""
