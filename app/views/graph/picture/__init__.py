"""A scene of the graph as a picture: painted, moved, marked, saved."""
