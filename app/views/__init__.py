"""Views of the window: one for each state, of the same name."""
