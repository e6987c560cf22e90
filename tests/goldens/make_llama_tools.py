"""Makes llama_tools.npz: python -m tests.goldens.make_llama_tools BIN. BIN is a folder with
llama-perplexity, llama-imatrix, llama-cvector-generator, llama-completion and llama-quantize of
llama.cpp (built from its source, as llama-cpp-python's source distribution has it).

The tools' figures for `write_flat`, 3 chunks of 256 tokens of text.txt: `kld` [10] against
`write_coarse`, the same model with coarser weights (value and error of ln ratio, KL divergence, RMS
of differences and share of the same top token, both as fractions; and the largest KL divergence);
`imatrix` and `vector`, the files that llama-imatrix and llama-cvector-generator (mean) wrote;
`perplexity` [4] of the plain model, of the model steered by `directions` at layer 1 alone and at
all layers, and by `vector`.

`said_CASE`: bytes of 32 greedy tokens of llama-completion; CASE is `plain`, `ours` (steered by
`directions`), `one` (at layer 1 alone) and `theirs` (by `vector`), and `real_CASE` the same of
SmolLM2 in F16, whose `theirs` is `real_vector`, layers of llama-cvector-generator's file.

`Q4_K`, `Q5_K`, `Q6_K`: blocks that llama-quantize made of `k_weights`. `weighed`: those that it
made of WEIGHED in Q4_0 by an importance matrix that was recorded here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf
import numpy as np

from app.library import resolve
from engine.gguf.control_vector import read_directions, write_directions
from engine.laboratory.library import record_texts
from engine.runner import load
from tests.goldens.tiny import Draws, E, write_tiny

HERE = Path(__file__).parent
CTX, CHUNKS, STRENGTH = 256, 3, 2.0
TEXT = (HERE / "text.txt").read_text(encoding="utf-8")[:4000]
N = 32  # tokens that are written
END = b"\n\n"  # behind them
WIDE, WEIGHED = "blk.0.ffn_down.weight", "blk.1.ffn_up.weight"
SIDES = ("the hat is on\nthe tea is hot\nit is so", "on a mat the rat\nno one is here\nto a the")


@dataclass(frozen=True)
class Spoken:
    """How a model is steered while it writes: by strengths for our directions and for theirs."""

    prompt: str
    strength: float
    theirs: float
    layers: tuple[int, int]


TINY = Spoken("the hat is on a", 2.0, 4.0, (1, 2))
REAL = Spoken("My day was", 0.6, 4.0, (10, 12))


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


def real_directions() -> dict[int, np.ndarray]:
    """For SmolLM2's layers 10 to 12, of length 14 or so."""
    draws = Draws(22)
    return {i: draws.uniform(576).astype(np.float32) for i in range(10, 13)}


def numbers(output: str, name: str) -> list[float]:
    """The value behind a name, and its error if there is one."""
    found = re.search(
        rf"{re.escape(name)}\s*[:=]\s*(-?[\d.]+)(?:\s*(?:±|\+/-)\s*([\d.]+))?", output
    )
    if found is None:
        raise ValueError(f"{name} is not in {output[-2000:]}")
    return [float(one) for one in found.groups() if one is not None]


def k_weights() -> np.ndarray:
    """Weights of several kinds for formats of blocks of 256: float32 [8, 512]."""
    values = Draws(5).uniform(8, 512) / 50
    values[2:4] = 50**2 * values[2:4] ** 3
    values[4:6] += 0.015
    values[6, :256], values[6, 256:] = 0, -0.01
    values[7, np.abs(values[7]) < 0.012] = 0
    return values.astype(np.float32)


def write_f16(source: Path, path: Path) -> Path:
    """A file with its matrices in F16."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], element)
    for one in reader.tensors:
        values = gguf.quants.dequantize(one.data, one.tensor_type)
        writer.add_tensor(one.name, values.astype(np.float16) if values.ndim == 2 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class Tools:
    """llama.cpp's programs on one thread, with a cache in float32."""

    def __init__(self, folder: Path, here: Path) -> None:
        self._folder, self._here = folder, here

    def run(self, tool: str, model: Path, *more: object, last: str = "") -> str:
        """What a tool prints, again until it has `last`: it may end before all is written."""
        while True:
            self._call(tool, model, *more, "-b", CTX)
            printed = (self._here / "log").read_text(encoding="utf-8")
            if last in printed:
                return printed

    def say(self, model: Path, prompt: str, *more: object) -> np.ndarray:
        """The bytes of N greedy tokens after a prompt: uint8."""
        words = ["-p", prompt, "-n", N, "--temp", 0, "-c", CTX, "-no-cnv", "--no-display-prompt"]
        said = b""
        while not said.endswith(END):
            self._call("completion", model, *words, *more, "--simple-io", "--no-warmup")
            said = (self._here / "out").read_bytes()
        return np.frombuffer(said.removesuffix(END), np.uint8)

    def quantize(self, source: Path, kind: str, tensor: str, *more: object) -> np.ndarray:
        """The blocks [rows, bytes] of a tensor in a format."""
        made = self._here / "quantized.gguf"
        words = [self._folder / "llama-quantize", *more, "--pure", source, made, kind, 1]
        with (self._here / "log").open("w") as log:
            subprocess.run([*map(str, words)], stdout=log, stderr=log, check=True)
        found = next(one for one in gguf.GGUFReader(made).tensors if one.name == tensor)
        assert found.tensor_type.name == kind
        return np.array(found.data)

    def _call(self, tool: str, model: Path, *more: object) -> None:
        words = [self._folder / f"llama-{tool}", "-m", model, *more]
        words += ["-t", 1, "-fa", "off", "-ctk", "f32", "-ctv", "f32"]
        with (self._here / "log").open("w") as log, (self._here / "out").open("w") as out:
            to = out if tool == "completion" else log
            subprocess.run([*map(str, words)], stdout=to, stderr=log, check=True)


def steered(path: Path, strength: float, first: int, last: int) -> list[object]:
    """Options of the tools."""
    scaled = ["--control-vector-scaled", f"{path}:{strength}"]
    return [*scaled, "--control-vector-layer-range", first, last]


def generated(tools: Tools, here: Path, model: Path) -> Path:
    """The file that llama-cvector-generator makes of SIDES by means."""
    for name, lines in zip(("positive", "negative"), SIDES, strict=True):
        (here / name).write_text(f"{lines}\n")
    sides = ["--positive-file", here / "positive", "--negative-file", here / "negative"]
    out = here / f"{model.stem}.vector.gguf"
    tools.run("cvector-generator", model, *sides, "--method", "mean", "-o", out)
    return out


def measured(tools: Tools, here: Path, plain: Path, vectors: dict[str, Path]) -> dict[str, object]:
    """The figures of llama-perplexity, and llama-imatrix's file."""
    coarse, text, logits = write_coarse(here / "b.gguf"), here / "text.txt", here / "logits"
    text.write_text(TEXT, encoding="utf-8")
    read = ["-f", text, "-c", CTX, "--chunks", CHUNKS]
    tools.run("perplexity", plain, *read, "--kl-divergence-base", logits)
    against = ["--kl-divergence-base", logits, "--kl-divergence"]
    said = tools.run("perplexity", coarse, *read, *against, last="Same top p:")
    kld = numbers(said, "Mean ln(PPL(Q)/PPL(base))") + numbers(said, "Mean    KLD")
    for name in ("RMS Δp", "Same top p"):
        kld += [one / 100 for one in numbers(said, name)]
    kld += numbers(said, "Maximum KLD")
    tools.run("imatrix", plain, *read, "-o", here / "imatrix.gguf")
    cases = [
        [],
        steered(vectors["ours"], STRENGTH, 1, 1),
        steered(vectors["ours"], STRENGTH, 1, 2),
        steered(vectors["theirs"], STRENGTH, 1, 2),
    ]
    found = [
        numbers(tools.run("perplexity", plain, *read, *one, last="PPL ="), "PPL")[0]
        for one in cases
    ]
    return {"kld": kld, "perplexity": found}


def weighed(tools: Tools, here: Path, plain: Path) -> np.ndarray:
    """The blocks that llama-quantize makes by an importance matrix of ours."""
    with load(plain, device="host", kv="f32", ctx=CTX) as model:
        tokens = model.loaded.tokenizer.encode(TEXT, parse_special=False)[: CHUNKS * CTX]
        text = here / "whole.txt"
        text.write_text(model.loaded.tokenizer.decode(tokens), encoding="utf-8")
        record_texts(model, [text], here / "recorded", "imatrix", n_ctx=CTX)
    ours = here / "recorded" / "imatrix.gguf"
    blocks = tools.quantize(plain, "Q4_0", WEIGHED, "--imatrix", ours)
    print(*re.findall(r".*importance matrix.*", (here / "log").read_text()), sep="\n")
    theirs = tools.quantize(plain, "Q4_0", WEIGHED, "--imatrix", here / "imatrix.gguf")
    without = tools.quantize(plain, "Q4_0", WEIGHED)
    same, plainly = ((blocks == one).mean() for one in (theirs, without))
    print(f"bytes equal with llama-imatrix's file {same:.4f}, with none {plainly:.4f}")
    return blocks


def spoken(tools: Tools, model: Path, case: Spoken, vectors: dict[str, Path]) -> dict[str, object]:
    """The answers of a model that is steered in no way, and in three."""
    cases = {
        "plain": [],
        "ours": steered(vectors["ours"], case.strength, *case.layers),
        "one": steered(vectors["ours"], case.strength, case.layers[0], case.layers[0]),
        "theirs": steered(vectors["theirs"], case.theirs, *case.layers),
    }
    return {name: tools.say(model, case.prompt, *more) for name, more in cases.items()}


def main(folder: Path) -> None:
    with TemporaryDirectory() as where:
        here = Path(where)
        tools, plain = Tools(folder, here), write_flat(here / "a.gguf")
        vectors = {"ours": here / "ours.gguf", "theirs": generated(tools, here, plain)}
        write_directions(vectors["ours"], directions(), "llama")
        kept = measured(tools, here, plain, vectors)
        kept["weighed"] = weighed(tools, here, plain)
        wide = write_tiny(here / "wide.gguf", "llama", tensors={WIDE: k_weights()})
        for kind in ("Q4_K", "Q5_K", "Q6_K"):
            kept[kind] = tools.quantize(wide, kind, WIDE)
        for name, path in (("imatrix", here / "imatrix.gguf"), ("vector", vectors["theirs"])):
            kept[name] = np.frombuffer(path.read_bytes(), np.uint8)
        said = spoken(tools, plain, TINY, vectors)
        real = write_f16(resolve("smollm2-135m"), here / "real.gguf")
        made = read_directions(generated(tools, here, real))
        few = {i: made[i] for i in range(REAL.layers[0], REAL.layers[1] + 1)}
        vectors = {name: here / f"real.{name}.gguf" for name in vectors}
        write_directions(vectors["theirs"], few, "llama")
        write_directions(vectors["ours"], real_directions(), "llama")
        kept["real_vector"] = np.stack([few[i] for i in sorted(few)])
        said |= {f"real_{k}": one for k, one in spoken(tools, real, REAL, vectors).items()}
    print(kept["kld"], kept["perplexity"])
    for name, one in said.items():
        print(name, bytes(one))
        kept[f"said_{name}"] = one
    np.savez_compressed(HERE / "llama_tools.npz", **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
