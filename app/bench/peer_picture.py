"""A picture before llama.cpp's tower, by the calls of llama-cpp-python's mtmd module."""

import ctypes
from time import perf_counter_ns
from typing import Any

import numpy as np


class PeerPicture:
    """A tower's file opened for one picture. `key` is what it was made of.

    Raises ValueError for what llama.cpp does not take.
    """

    def __init__(
        self, lib: Any, model: Any, mmproj: str, picture: str, threads: int, flash: bool
    ) -> None:
        import llama_cpp.mtmd_cpp as mtmd

        self.key = (mmproj, picture, threads, flash)
        self._mtmd = mtmd
        self._width = lib.llama_model_n_embd_inp(model)
        params = mtmd.mtmd_context_params_default()
        params.use_gpu, params.n_threads, params.warmup = False, threads, False
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self._context = mtmd.mtmd_init_from_file(mmproj.encode(), model, params)
        if not self._context:
            raise ValueError(f"llama.cpp does not load {mmproj}")
        self._bitmap = mtmd.mtmd_helper_bitmap_init_from_file(
            self._context, picture.encode(), False
        )
        if not self._bitmap:
            raise ValueError(f"llama.cpp does not read {picture}")

    def timed(self) -> int:
        """Nanoseconds from decoded pixels to the embeddings of all views in NumPy."""
        mtmd = self._mtmd
        start = perf_counter_ns()
        chunks = mtmd.mtmd_input_chunks_init()
        try:
            self._cut(chunks)
            for i in range(mtmd.mtmd_input_chunks_size(chunks)):
                chunk = mtmd.mtmd_input_chunks_get(chunks, i)
                if mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_IMAGE:
                    self._encode(chunk)
            return perf_counter_ns() - start
        finally:
            mtmd.mtmd_input_chunks_free(chunks)

    def close(self) -> None:
        """Free the tower and the picture."""
        self._mtmd.mtmd_bitmap_free(self._bitmap)
        self._mtmd.mtmd_free(self._context)

    def _cut(self, chunks: Any) -> None:
        """Resize, and cut into views: a part of what it calls tokenising."""
        text = self._mtmd.mtmd_input_text()
        text.text = self._mtmd.mtmd_default_marker()
        text.text_len, text.parse_special = len(text.text), True
        bitmaps = (self._mtmd.mtmd_bitmap_p_ctypes * 1)(self._bitmap)
        status = self._mtmd.mtmd_tokenize(
            self._context, chunks, ctypes.byref(text), bitmaps, len(bitmaps)
        )
        if status:
            raise ValueError(f"mtmd_tokenize returned {status}")

    def _encode(self, chunk: Any) -> None:
        status = self._mtmd.mtmd_encode_chunk(self._context, chunk)
        if status:
            raise ValueError(f"mtmd_encode_chunk returned {status}")
        n = self._mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        rows = self._mtmd.mtmd_get_output_embd(self._context)
        np.ctypeslib.as_array(rows, (n, self._width)).copy()
