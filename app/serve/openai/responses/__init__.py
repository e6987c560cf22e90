"""OpenAI's responses, without a memory of earlier ones."""
