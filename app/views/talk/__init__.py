"""The chat, the composer, and what stands around them."""
