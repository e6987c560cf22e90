"""The open model for other programs, over HTTP: OpenAI's, Anthropic's and Ollama's interfaces."""
