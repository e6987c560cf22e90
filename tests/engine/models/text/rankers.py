"""Text models with a head: what each reaches, and what it is to catch."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np

from tests.engine.models.text.rows import Fault, Row

HEAD = "engine/models/head.py"
RANKERS = [
    Row(
        *("xlm-roberta-rank", "bert", "a matrix with tanh, then one score, of the first row"),
        Fault(HEAD, "gelu if modern else np.tanh", "gelu if modern else np.sin"),
        launches=0,
    ),
    Row(
        *("roberta-labels", "bert", "three labels"),
        Fault(HEAD, "first = Pooling.CLS if whole", "first = Pooling.MEAN if whole"),
        launches=0,
    ),
    Row(
        *("modern-bert-rank", "modern-bert", "the mean's row, gelu by erf, a norm"),
        Fault(HEAD, "usual = Pooling.MEAN if modern else first", "usual = first"),
        launches=0,
    ),
    Row(
        *("modern-bert-first", "modern-bert", "the first row, as the file says"),
        Fault(HEAD, "            if NORM in found:", "            if False:"),
        launches=0,
    ),
    Row(
        *("bert-rank", "bert", "by llama.cpp: a product alone"),
        Fault(HEAD, "found.get(OUT_BIAS), row)", "None, row)"),
        launches=0,
    ),
    Row(
        *("jina-bert-v2-rank", "jina-bert-v2", "by llama.cpp: the matrix is of one row"),
        Fault(HEAD, "found.get(BIAS), row))", "None, row))"),
        launches=0,
    ),
    Row(
        *("neo-bert-labels", "neo-bert", "by llama.cpp: a matrix with tanh, three labels"),
        Fault(HEAD, "count = len(labels) or 1", "count = 1"),
        launches=0,
    ),
]


def with_head(
    source: Path,
    path: Path,
    tensors: Mapping[str, np.ndarray],
    labels: Sequence[str],
    form: str = "",
) -> Path:
    """A file with further tensors, their labels, and the form of a query with a document."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, arch)
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            element = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], element)
    if labels:
        writer.add_classifier_output_labels(list(labels))
    if form:
        writer.add_chat_template([{"name": "rerank", "template": form}])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
