"""Text to token ids and back, and chats to text, as a GGUF file says."""

from engine.tokenizer.chat import ChatTemplate, load_chat_template
from engine.tokenizer.tokenizer import StreamDecoder, Tokenizer, load_tokenizer

__all__ = ["ChatTemplate", "StreamDecoder", "Tokenizer", "load_chat_template", "load_tokenizer"]
