"""Text to token ids and back, and chats to text, as a GGUF file says."""

from engine.tokenizer.decode import StreamDecoder
from engine.tokenizer.tokenizer import Tokenizer, load_tokenizer

__all__ = ["StreamDecoder", "Tokenizer", "load_tokenizer"]
