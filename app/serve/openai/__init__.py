"""OpenAI's interface: chat completions, completions, embeddings, models and responses."""
