"""Makes llama_tools.npz: python -m tests.goldens.make_llama_tools BIN. BIN is a folder with
llama-perplexity, llama-imatrix and llama-cvector-generator of llama.cpp (built from its source).

The tools' figures for `write_flat`, 3 chunks of 256 tokens of text.txt: `kld` [10] against
`write_coarse`, the same model with coarser weights (value and error of ln ratio, KL divergence, RMS
of differences and share of the same top token, both as fractions; and the largest KL divergence);
`imatrix` and `vector`, the files that llama-imatrix and llama-cvector-generator (mean) wrote;
`perplexity` [4] of the plain model, of the model steered by `directions` at layer 1 alone and at
all layers, and by `vector`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf
import numpy as np

from engine.gguf.control_vector import write_directions
from tests.goldens.tiny import Draws, E, write_tiny

HERE = Path(__file__).parent
CTX, CHUNKS, STRENGTH = 256, 3, 2.0
TEXT = (HERE / "text.txt").read_text(encoding="utf-8")[:4000]
SIDES = ("the hat is on\nthe tea is hot\nit is so", "on a mat the rat\nno one is here\nto a the")


def write_flat(path: Path) -> Path:
    """The tiny llama with less certain answers: the tools keep log-probabilities down to -16."""
    source = path.with_suffix(".tiny.gguf")
    tensors = gguf.GGUFReader(write_tiny(source, "llama")).tensors
    output = next(one.data for one in tensors if one.name == "output.weight")
    return write_tiny(path, "llama", tensors={"output.weight": output / np.float16(4)})


def write_coarse(path: Path) -> Path:
    """The same, whose matrices went through Q4_0 and are stored as F16: tools that round
    activations to fit quantised weights round none.
    """
    flat, kind = write_flat(path.with_suffix(".flat.gguf")), gguf.GGMLQuantizationType.Q4_0
    matrices = {}
    for one in gguf.GGUFReader(flat).tensors:
        if one.data.ndim == 2:
            values = np.array(one.data)
            if one.name.startswith("blk."):
                blocks = gguf.quants.quantize(values.astype(np.float32), kind)
                values = gguf.quants.dequantize(blocks, kind).astype(np.float16)
            matrices[one.name] = values
    return write_tiny(path, "llama", tensors=matrices)


def directions() -> dict[int, np.ndarray]:
    """For layers 1 and 2, not of length 1."""
    draws = Draws(21)
    return {i: draws.uniform(E).astype(np.float32) for i in (1, 2)}


def numbers(output: str, name: str) -> list[float]:
    """The value behind a name, and its error if there is one."""
    found = re.search(
        rf"{re.escape(name)}\s*[:=]\s*(-?[\d.]+)(?:\s*(?:±|\+/-)\s*([\d.]+))?", output
    )
    if found is None:
        raise ValueError(f"{name} is not in {output[-2000:]}")
    return [float(one) for one in found.groups() if one is not None]


def main(folder: Path) -> None:
    with TemporaryDirectory() as where:
        here = Path(where)
        plain, coarse = write_flat(here / "a.gguf"), write_coarse(here / "b.gguf")
        text, logits, ours = here / "text.txt", here / "logits", here / "ours.gguf"
        text.write_text(TEXT, encoding="utf-8")
        write_directions(ours, directions(), "llama")
        read = ["-f", str(text), "-c", str(CTX), "--chunks", str(CHUNKS)]

        def run(tool: str, model: Path, *more: object) -> str:
            command = [str(folder / f"llama-{tool}"), "-m", str(model), *map(str, more)]
            command += ["-t", "1", "-b", str(CTX), "-fa", "off", "-ctk", "f32", "-ctv", "f32"]
            with (here / "log").open("w+") as log:  # through a pipe the last lines may get lost
                subprocess.run(command, stdout=log, stderr=log, check=True)
                log.seek(0)
                return log.read()

        run("perplexity", plain, *read, "--kl-divergence-base", logits)
        said = run("perplexity", coarse, *read, "--kl-divergence-base", logits, "--kl-divergence")
        kld = numbers(said, "Mean ln(PPL(Q)/PPL(base))") + numbers(said, "Mean    KLD")
        for name in ("RMS Δp", "Same top p"):
            kld += [one / 100 for one in numbers(said, name)]
        kld += numbers(said, "Maximum KLD")
        run("imatrix", plain, *read, "-o", here / "imatrix.gguf")
        for name, lines in zip(("positive", "negative"), SIDES, strict=True):
            (here / name).write_text(f"{lines}\n")
        sides = ["--positive-file", here / "positive", "--negative-file", here / "negative"]
        run("cvector-generator", plain, *sides, "--method", "mean", "-o", here / "vector.gguf")

        def steered(vector: Path, first: int, last: int) -> float:
            scaled = ["--control-vector-scaled", f"{vector}:{STRENGTH}"]
            layers = ["--control-vector-layer-range", first, last]
            return numbers(run("perplexity", plain, *read, *scaled, *layers), "PPL")[0]

        found = [
            numbers(run("perplexity", plain, *read), "PPL")[0],
            steered(ours, 1, 1),
            steered(ours, 1, 2),
            steered(here / "vector.gguf", 1, 2),
        ]
        files = {
            name: np.frombuffer((here / f"{name}.gguf").read_bytes(), np.uint8)
            for name in ("imatrix", "vector")
        }
    print(kld, found)
    np.savez_compressed(HERE / "llama_tools.npz", kld=kld, perplexity=found, **files)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
