"""llama.cpp on the same file, through llama-cpp-python's low-level calls: ids and logits.

Settings are the library's defaults (flash attention where it likes it, f16 cache), as its own
perplexity tool has them; where it is to be `exact`, neither.
Needs llama-cpp-python, which the tests themselves do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import llama_cpp
import numpy as np

Compute = Callable[[object, object], int]
"""`llama_encode` or `llama_decode`, of a context and a batch."""


class Peer:
    """One loaded file with a context of at most `context` tokens."""

    def __init__(
        self,
        path: Path,
        context: int,
        threads: int = 2,
        *,
        exact: bool = False,
        embeds: bool = False,
        lora: Mapping[Path, float] | None = None,
        ranks: bool = False,
    ) -> None:
        self._silence = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise ValueError(f"llama.cpp does not load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = context
        params.n_threads = params.n_threads_batch = threads
        if exact:
            params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if embeds:
            params.embeddings, params.pooling_type = True, llama_cpp.LLAMA_POOLING_TYPE_NONE
        if ranks:
            params.embeddings, params.pooling_type = True, llama_cpp.LLAMA_POOLING_TYPE_RANK
        self.width: int = llama_cpp.llama_model_n_embd(self._model)
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        self._adapt(lora or {})
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.vocabulary: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.bos: int | None = None
        if llama_cpp.llama_vocab_get_add_bos(self._vocab):
            self.bos = llama_cpp.llama_vocab_bos(self._vocab)

    def _adapt(self, lora: Mapping[Path, float]) -> None:
        """Apply adapters' files by their scales."""
        made = [llama_cpp.llama_adapter_lora_init(self._model, str(path).encode()) for path in lora]
        if not all(made):
            raise ValueError(f"llama.cpp does not load one of {[*lora]}")
        adapters = (llama_cpp.llama_adapter_lora_p_ctypes * len(made))(*made)
        scales = (ctypes.c_float * len(made))(*lora.values())
        if llama_cpp.llama_set_adapters_lora(self._context, adapters, len(made), scales):
            raise RuntimeError("llama_set_adapters_lora")

    def tokenize(self, text: bytes) -> np.ndarray:
        """Ids of the text, BOS by the file's rule, special tokens not parsed: int32 [T]."""
        ids = np.zeros(len(text) + 2, np.int32)
        room = ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        count = llama_cpp.llama_tokenize(self._vocab, text, len(text), room, len(ids), True, False)
        if count < 0:
            raise ValueError(f"llama_tokenize: {count}")
        return ids[:count]

    def logits(self, tokens: Sequence[int], rows: range) -> np.ndarray:
        """Logits of the positions `rows` of a context that starts empty: float32 [rows, V]."""
        self._decode(tokens, rows)
        found = llama_cpp.llama_get_logits(self._context)
        return np.ctypeslib.as_array(found, (len(rows), self.vocabulary)).copy()

    def embeddings(self, tokens: Sequence[int]) -> np.ndarray:
        """Rows of all positions, of a model that `embeds`: float32 [T, E]."""
        self._decode(tokens, range(len(tokens)))
        found = llama_cpp.llama_get_embeddings(self._context)
        return np.ctypeslib.as_array(found, (len(tokens), self.width)).copy()

    def scores(self, tokens: Sequence[int]) -> np.ndarray:
        """Of a text for each label, of a model that `ranks`: float32 [labels]."""
        self._decode(tokens, range(len(tokens)))
        found = llama_cpp.llama_get_embeddings_seq(self._context, 0)
        count = llama_cpp.llama_model_n_cls_out(self._model)
        return np.ctypeslib.as_array(found, (count,)).copy()

    def answer(self, prompt: Sequence[int], tokens: Sequence[int]) -> np.ndarray:
        """Logits of the decoder behind each of its tokens, once the encoder has read a prompt:
        float32 [T, V].
        """
        self._run(llama_cpp.llama_encode, prompt, range(len(prompt)))
        return self.logits(tokens, range(len(tokens)))

    def _decode(self, tokens: Sequence[int], rows: range) -> None:
        model = self._model
        encodes = llama_cpp.llama_model_has_encoder(model)
        only = encodes and not llama_cpp.llama_model_has_decoder(model)
        self._run(llama_cpp.llama_encode if only else llama_cpp.llama_decode, tokens, rows)

    def _run(self, compute: Compute, tokens: Sequence[int], rows: range) -> None:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i in rows
        status = compute(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if status:
            raise RuntimeError(f"{compute.__name__}: {status}")

    def close(self) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)
