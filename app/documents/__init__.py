"""Text that a person brings: files read into documents, and how a prompt holds them."""
