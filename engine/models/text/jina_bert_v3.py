"""Jina Embeddings 3: an XLM-RoBERTa with rotary positions, without the LoRA of a task.

Sturua et al. 2024; tensor names and keys by the GGUF spec. Adapters of tasks are other files, to be
merged before.
"""

from engine.layers.attention import SelfAttention
from engine.layers.blocks import AddNormBlock
from engine.layers.feed_forward import PlainFeedForward
from engine.layers.spec import GELU_ERF
from engine.models.text import bert

Params = bert.Params


Block = AddNormBlock[SelfAttention, PlainFeedForward]
Weights = bert.SegmentWeights[Block]


class Model(bert.SegmentEncoder[bert.Params, Block]):
    gated = GELU_ERF
