"""Parser of answers: reasoning, text and tool calls."""
