"""GGUF files: a mapped reader, typed metadata, block formats, split files."""

from engine.gguf.metadata import Metadata
from engine.gguf.reader import GGUFFile, open_gguf
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import Array

__all__ = ["Array", "GGUFFile", "Metadata", "TensorInfo", "open_gguf"]
