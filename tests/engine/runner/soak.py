"""Chat turns at full speed, with context shifts, for as long as wanted: memory and latency.

    python -m tests.engine.runner.soak MODEL [SECONDS] [--device NAME]

For a quiet machine: a line a minute with the worker's memory and the milliseconds per token.
"""

import argparse
import statistics
from time import monotonic

import psutil

from engine.protocol import ChatMessage, Finished, Generate, Load, Loaded, Sampling
from engine.settings import EngineOptions
from engine.worker import Worker
from tests.conftest import real_model

TURN = 160  # tokens of an answer
QUESTIONS = (
    "Tell me a story about a lighthouse.",
    "What happened next?",
    "Who was there, and why?",
    "Describe the sea in the morning.",
)
MIB = 1 << 20


def main() -> None:
    """Turns until the time is over; a chat that has shifted starts anew."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("seconds", nargs="?", type=float, default=900)
    parser.add_argument("--device")
    args = parser.parse_args()
    with Worker() as worker:
        options = EngineOptions(device=args.device, ctx=1024)
        load = Load(worker.new_id(), path=str(real_model(args.model)), options=options)
        assert any(isinstance(reply, Loaded) for reply in worker.run(load))
        process = psutil.Process(worker.pid)
        start = minute = monotonic()
        chat: list[ChatMessage] = []
        turns = shifts = tokens = 0
        per_token: list[float] = []
        while monotonic() - start < args.seconds:
            chat.append(ChatMessage("user", QUESTIONS[turns % len(QUESTIONS)]))
            sampling = Sampling(seed=turns)
            request = Generate(worker.new_id(), chat, sampling=sampling, max_tokens=TURN)
            text = ""
            for reply in worker.run(request):
                text += getattr(reply, "text", "")
                if isinstance(reply, Finished):
                    stats = reply.stats
            chat.append(ChatMessage("assistant", text))
            turns, shifts = turns + 1, shifts + stats.n_shifts
            tokens += stats.n_generated
            if stats.n_generated > 1:
                per_token.append(1000 * stats.decode_s / (stats.n_generated - 1))
            if stats.n_shifts and len(chat) > 24:
                chat = []
            if monotonic() - minute >= 60:
                minute = monotonic()
                memory = process.memory_info().rss / MIB
                print(
                    f"{(minute - start) / 60:4.1f} min  {memory:7.1f} MiB  "
                    f"{statistics.median(per_token):6.2f} ms a token  "
                    f"{turns} turns, {tokens} tokens, {shifts} shifts",
                    flush=True,
                )
                per_token.clear()


if __name__ == "__main__":
    main()
