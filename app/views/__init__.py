"""What the window shows: one view for each state, of the same name."""
