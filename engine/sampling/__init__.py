"""From logits to a token, and where an answer ends."""
