"""llama.cpp as a process of its own, to be measured against: `python -m app.bench.peer`.

It reads a JSON line a repetition and answers with one, after a first line that describes itself;
through llama-cpp-python's low-level calls, with the library's defaults but for what is said here.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

BATCH, MICRO_BATCH = 2048, 512
"""llama-bench's defaults."""

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


@dataclass(frozen=True)
class Run:
    """One repetition of a test."""

    n_prompt: int
    n_gen: int
    n_depth: int
    threads: int
    flash_attention: bool
    warm_up: bool
    picture: str = ""
    mmproj: str = ""
    n_sequences: int = 0
    is_shared: bool = False

    @property
    def n_ctx(self) -> int:
        return max(1, self.n_sequences) * (self.n_prompt + self.n_gen) + self.n_depth


class Peer:
    """A loaded file, and the context of the latest run."""

    def __init__(self, lib: Any, path: str) -> None:
        self._lib = lib
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = lib.llama_model_load_from_file(path.encode(), params)
        if not self._model:
            raise ValueError(f"llama.cpp does not load {path}")
        vocab = lib.llama_model_get_vocab(self._model)
        self._n_vocab: int = lib.llama_vocab_n_tokens(vocab)
        self._bos = lib.llama_vocab_bos(vocab) if lib.llama_vocab_get_add_bos(vocab) else None
        self._context: Any = None
        self._of: tuple[int, int, bool, int] | None = None
        self._filled = 0
        self._picture: PeerPicture | None = None

    def run(self, run: Run) -> int:
        """Nanoseconds of a repetition, from an empty context filled to `n_depth`; or of a picture,
        from its pixels to its embeddings.
        """
        if run.picture:
            return self._look(run)
        self.open(run.n_ctx, run.threads, run.flash_attention)
        if run.warm_up:
            self._timed(run)
        return self._timed(run)

    def run_together(self, run: Run) -> tuple[int, int]:
        """Nanoseconds of reading and of writing, of several sequences together."""
        self.open(run.n_ctx, run.threads, run.flash_attention, run.n_sequences)
        together = PeerTogether(self._lib, self._context, self._n_vocab)
        if run.warm_up:
            together.timed(replace(run, n_gen=min(2, run.n_gen)), self._random_ids)
        return together.timed(run, self._random_ids)

    def _look(self, run: Run) -> int:
        key = (run.mmproj, run.picture, run.threads, run.flash_attention)
        if self._picture is None or self._picture.key != key:
            if self._picture is not None:
                self._picture.close()
            self._picture = PeerPicture(self._lib, self._model, *key)
        if run.warm_up:
            self._picture.timed()
        return self._picture.timed()

    def _timed(self, run: Run) -> int:
        self._fill(run.n_depth)
        ids = self._random_ids(run.n_prompt + run.n_gen, seed=1)
        start = perf_counter_ns()
        self._decode(ids[: run.n_prompt])
        for i in range(run.n_prompt, len(ids)):
            self._decode(ids[i : i + 1])
        return perf_counter_ns() - start

    def open(self, n_ctx: int, threads: int, flash_attention: bool, sequences: int = 1) -> None:
        """A context of that kind, unless there is one."""
        wanted = (n_ctx, threads, flash_attention, sequences)
        if self._of == wanted:
            return
        lib = self._lib
        if self._context is not None:
            lib.llama_free(self._context)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, BATCH, MICRO_BATCH
        params.n_threads = params.n_threads_batch = threads
        params.n_seq_max, params.kv_unified = sequences, sequences > 1
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if flash_attention
            else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise ValueError(f"llama.cpp makes no context of {n_ctx} tokens")
        self._of, self._filled = wanted, 0

    def _fill(self, depth: int) -> None:
        """Cut the cache back to its first `depth` tokens, or fill it anew where that fails."""
        lib = self._lib
        memory = lib.llama_get_memory(self._context)
        if depth and self._filled == depth and lib.llama_memory_seq_rm(memory, 0, depth, -1):
            return
        lib.llama_memory_clear(memory, True)
        self._decode(self._random_ids(depth, seed=depth))
        self._filled = depth

    def _decode(self, ids: "np.ndarray[Any, np.dtype[np.int32]]") -> None:
        """Read ids at the end of the cache; the last one's logits arrive in NumPy."""
        lib = self._lib
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            batch = lib.llama_batch_get_one(
                part.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)), len(part)
            )
            status = lib.llama_decode(self._context, batch)
            if status:
                raise ValueError(f"llama_decode returned {status}")
        if len(ids):
            logits = lib.llama_get_logits_ith(self._context, -1)
            np.ctypeslib.as_array(logits, (self._n_vocab,)).copy()

    def _random_ids(self, n: int, seed: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        ids = np.random.default_rng(seed).integers(0, self._n_vocab, n).astype(np.int32)
        if n and self._bos is not None:
            ids[0] = self._bos
        return ids


def main(path: str, n_ctx: str = "") -> None:
    """Answer until stdin ends. What goes wrong is reported in a line with `error`, and ends it.

    With `n_ctx` the first line also has the nanoseconds that the model and a context of so many
    tokens took, and the bytes that the process grew by.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a C library prints is not an answer

    def say(**facts: object) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    try:
        import llama_cpp.llama_cpp as lib
    except (ImportError, OSError, RuntimeError) as error:
        say(missing=str(error))
        return
    try:
        silence = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(silence, ctypes.c_void_p(0))
        before, start = _resident(), perf_counter_ns()
        peer = Peer(lib, path)
        facts: dict[str, object] = {"versions": _versions(lib)}
        facts["system_info"] = lib.llama_print_system_info().decode().strip()
        if n_ctx:
            peer.open(int(n_ctx), os.cpu_count() or 1, flash_attention=True)
            facts |= {"ns": perf_counter_ns() - start, "grown": _resident() - before}
        say(**facts)
        for line in sys.stdin:
            run = Run(**json.loads(line))
            if run.n_sequences:
                read_ns, write_ns = peer.run_together(run)
                say(read_ns=read_ns, write_ns=write_ns)
            else:
                say(ns=peer.run(run))
    except (ValueError, MemoryError) as error:
        say(error=str(error) or "out of memory")


def _resident() -> int:
    """Bytes of this process in memory."""
    return psutil.Process().memory_info().rss


def _versions(lib: Any) -> dict[str, str]:
    from importlib.metadata import version

    found = {"llama-cpp-python": version("llama-cpp-python")}
    for name in ("ggml_version", "ggml_commit"):
        try:
            function = getattr(lib._lib, name)
        except AttributeError:  # older or newer than what is known here
            continue
        function.restype = ctypes.c_char_p
        found[name] = function().decode()
    return found


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


if __name__ == "__main__":
    main(*sys.argv[1:])
