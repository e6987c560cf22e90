"""The options shared by every command that starts an engine."""

import argparse

from engine.errors import BadSetting
from engine.settings import KV_TYPES, EngineOptions

_MOST = (1 << 31) - 1  # the engine counts in 32 bits
FLASH_ATTENTION = {"on": True, "off": False, "auto": None}


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--device --ctx --kv --flash-attn --threads --budget --place --gpu-layers`, which
    engine_options() reads.
    """
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--device", metavar="NAME", help="devices to use, a,b, as `devices` names them"
    )
    group.add_argument("--ctx", type=positive, metavar="N", help="tokens of context")
    group.add_argument(
        "--kv", default="f16", metavar="TYPE", help=f"cache type: {', '.join(KV_TYPES)} (f16)"
    )
    group.add_argument(
        "--flash-attn",
        choices=tuple(FLASH_ATTENTION),
        default="auto",
        help="fused attention (auto)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="cores of a CPU device")
    group.add_argument(
        "--budget",
        action="append",
        default=[],
        metavar="DEVICE=MiB",
        help="most memory to use on a device; may be repeated",
    )
    group.add_argument(
        "--place",
        default="",
        metavar="WHERE",
        help=r"layers and weights: 0-11=intel:0,out=host,ffn_.*=pocl:0, or shares: 3,1",
    )
    group.add_argument(
        "--gpu-layers", type=count, metavar="N", help="layers for GPUs, one being the output block"
    )


def engine_options(args: argparse.Namespace) -> EngineOptions:
    """The group's values. Raises BadSetting."""
    if args.kv not in KV_TYPES:
        raise BadSetting("--kv", args.kv, f"one of {', '.join(KV_TYPES)}")
    return EngineOptions(
        device=args.device,
        ctx=args.ctx,
        kv=args.kv,
        flash_attention=FLASH_ATTENTION[args.flash_attn],
        threads=args.threads,
        budget=dict(_budget(text) for text in args.budget),
        place=args.place,
        gpu_layers=args.gpu_layers,
    )


def positive(text: str) -> int:
    """An argparse type: a whole number from 1 up."""
    if count(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def count(text: str) -> int:
    """An argparse type: a whole number from 0 up."""
    if not text.isdecimal() or len(text) > 10 or int(text) > _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {_MOST}")
    return int(text)


def _budget(text: str) -> tuple[str, int]:
    device, equals, mib = text.rpartition("=")
    if not (device and equals and mib.isdecimal() and len(mib) < 10):
        raise BadSetting("--budget", text, "DEVICE=MiB, such as intel:0=4096")
    return device, int(mib) << 20
