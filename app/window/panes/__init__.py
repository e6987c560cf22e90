"""What lies in the window: the top line, the talk with what is above it, the inspector."""
