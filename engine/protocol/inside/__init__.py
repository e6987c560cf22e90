"""Messages on a model's inside, and on trying a changed model."""
