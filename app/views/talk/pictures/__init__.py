"""Pictures of the talk: those being sent, those that were, and what the model sees of them."""
