"""The panes of the window: the top line, the chat with its notices, the inspector."""
