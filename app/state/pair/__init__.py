"""Two answers to one question: written at once or in turn, and compared word by word."""
