"""What transformers makes of the exam: python -m tests.demo.grade FOLDER"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import torch

from tests.demo.exam import exam
from tests.demo.network import ROWS, pixels
from tests.demo.questions import is_right
from tests.demo.speak import Speaker
from tests.demo.vocabulary import (
    BOS,
    IMAGE,
    IMAGE_END,
    IMAGE_ROW,
    TURN,
    TURN_END,
    tokenizer,
    tokens,
)

_LONGEST = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    speaker = Speaker()
    speaker.load_state_dict(torch.load(options.folder / "speak.pt", weights_only=True)["parts"])
    network, encode, end = speaker.network.eval(), tokenizer(), tokens().index(TURN_END)
    picture = f"\n\n{IMAGE}{IMAGE_ROW * ROWS}{IMAGE_END}\n\n"
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for task in exam():
        question = task.question
        prompt = f"{TURN}user\n{picture}{question.text}{TURN_END}\n{TURN}model\n"
        ids = torch.tensor([[BOS, *encode(prompt)]])
        said = network.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=pixels([task.picture]),
            token_type_ids=(ids == tokens().index(IMAGE_ROW)).long(),
            max_new_tokens=_LONGEST,
            do_sample=False,
            eos_token_id=end,
        )[0, ids.shape[1] :]
        answer = "".join(tokens()[i] for i in said.tolist() if i != end).replace("\u2581", " ")
        asked[question.kind] += 1
        right[question.kind] += is_right(answer, question.answer)
        if not is_right(answer, question.answer):
            print(f"{question.text} | {question.answer} | {answer}")
    for kind, count in asked.items():
        print(f"{kind:9} {right[kind]:3} of {count}")
    print(f"all {right.total():3} of {asked.total()}: {right.total() / asked.total():.1%}")


if __name__ == "__main__":
    main()
