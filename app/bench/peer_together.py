"""Several sequences of llama.cpp in one context, read and written together."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 2048
Ids = NDArray[np.int32]


class PeerTogether:
    """A context of several sequences that share one cache."""

    def __init__(self, lib: Any, context: Any, n_vocab: int) -> None:
        self._lib, self._context, self._n_vocab = lib, context, n_vocab

    def timed(self, run: Any, random_ids: Callable[[int, int], Ids]) -> tuple[int, int]:
        """Nanoseconds of reading all prompts and of writing, from an empty cache. The logits of
        every sequence arrive in NumPy.
        """
        lib, n, at = self._lib, run.n_sequences, run.n_prompt
        memory = lib.llama_get_memory(self._context)
        lib.llama_memory_clear(memory, True)
        ids = [random_ids(at + run.n_gen, seed) for seed in range(n)]
        readers = range(1 if run.is_shared else n)
        prompts = [(int(ids[s][i]), i, s, i == at - 1) for s in readers for i in range(at)]
        begun = perf_counter_ns()
        for start in range(0, len(prompts), BATCH):
            self._decode(prompts[start : start + BATCH])
        if run.is_shared:
            for sequence in range(1, n):
                lib.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
        read_ns, begun = perf_counter_ns() - begun, perf_counter_ns()
        for i in range(at, at + run.n_gen):
            self._decode([(int(ids[s][i]), i, s, True) for s in range(n)])
        return read_ns, perf_counter_ns() - begun

    def _decode(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        """One batch of (id, position, sequence, whether its logits are wanted)."""
        lib = self._lib
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for i, (token, position, sequence, wanted) in enumerate(tokens):
                batch.token[i], batch.pos[i] = token, position
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                batch.logits[i] = wanted
            status = lib.llama_decode(self._context, batch)
            if status:
                raise ValueError(f"llama_decode returned {status}")
            for i, (_, _, _, wanted) in enumerate(tokens):
                if wanted:
                    row = lib.llama_get_logits_ith(self._context, i)
                    np.ctypeslib.as_array(row, (self._n_vocab,)).copy()
        finally:
            lib.llama_batch_free(batch)
