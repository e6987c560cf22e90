"""Writes schemas.json.xz: schemas of the JSON-Schema-Test-Suite that forms of answers know.

    python -m tests.goldens.make_schema_goldens FOLDER

FOLDER is the source distribution of the package `jsonschema`, unpacked: `json/tests` in it is the
suite (MIT licence, kept beside the schemas). Taken are those that llguidance reads, the validator
calls schemas, and something of the suite fits; what the others are refused for is printed.
"""

import json
import lzma
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from engine.protocol import JsonSchema
from engine.sampling.constraint import LIMITS, BadForm, grammar_of

HERE = Path(__file__).parent
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}


class Bytes:
    """A vocabulary of single bytes."""

    eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
    tokens = [*(bytes([i]) for i in range(256)), b"<end>"]

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


WORDS = LLTokenizer(TokenizerWrapper(Bytes()), n_vocab=257, eos_token=[256])


def problem(schema: dict[str, Any]) -> str:
    """Why a schema is not taken."""
    try:
        grammar = grammar_of(JsonSchema(json.dumps(schema)))
        matcher = LLMatcher(WORDS, grammar, log_level=0, limits=LIMITS)
        validator_for(schema).check_schema(schema)
    except (BadForm, SchemaError) as error:
        return str(error)
    return matcher.get_error()


def main(folder: Path) -> None:
    suite = folder / "json"
    taken: dict[str, dict[str, Any]] = {}
    refused: Counter[str] = Counter()
    for draft, uri in DRAFTS.items():
        for path in sorted((suite / "tests" / draft).rglob("*.json")):
            for group in json.loads(path.read_text()):
                schema = group["schema"]
                if isinstance(schema, bool) or not any(t["valid"] for t in group["tests"]):
                    continue
                plain = {k: v for k, v in schema.items() if k != "$schema"}
                key = json.dumps(plain, sort_keys=True)
                if key == "{}" or key in taken:
                    continue
                if why := problem({**plain, "$schema": uri}):
                    refused[why[:70]] += 1
                    continue
                name = f"{path.relative_to(suite / 'tests')}: {group['description']}"
                taken[key] = {"name": name, "schema": {**plain, "$schema": uri}}
    found = {"licence": (suite / "LICENSE").read_text(), "schemas": list(taken.values())}
    data = json.dumps(found).encode()
    (HERE / "schemas.json.xz").write_bytes(lzma.compress(data, preset=9))
    for why, count in refused.most_common():
        print(count, why)
    print(len(taken), "schemas,", len(data), "bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
