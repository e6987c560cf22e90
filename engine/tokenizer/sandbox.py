"""The process that renders chat templates, one JSON line in, one out; `renderer.py` starts it with
the MiB that a template may take.

It is run by its path and imports nothing of the engine. A template is a stranger's program: it
gets no attribute it should not see (Jinja's sandbox) and a bounded answer. Its memory and time are
bounded by the parent, its time by an alarm as well, should that be gone.
"""

import json
import signal
import sys
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUTPUT = 8 << 20  # characters
ALARM = 2  # seconds; more than the parent gives


class GenerationTag(Extension):
    """`{% generation %}` marks the assistant's part for training; it changes no text."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Missing(jinja2.Undefined):
    """A value nobody gave: joined to a text it adds nothing, as it prints nothing."""

    def __add__(self, other: object) -> Any:
        return other if isinstance(other, str) else self._fail_with_undefined_error()

    __radd__ = __add__


def raise_exception(message: object) -> None:
    raise TemplateRuntimeError(str(message))


def strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is; Jinja's own filter would escape what HTML does not like.

    Generators, which filters such as `map` give, become lists, missing values null.
    """
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators and (separators[0], separators[1]),
        sort_keys=sort_keys,
        default=lambda other: None if isinstance(other, jinja2.Undefined) else list(other),
    )


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox, which here refuses an unsafe attribute at once, not when its value is used."""

    def unsafe_undefined(self, obj: object, attribute: str) -> NoReturn:
        kind = type(obj).__name__
        raise SecurityError(f"access to attribute {attribute!r} of a {kind} is unsafe")


def environment() -> Environment:
    """Jinja as the authors of chat templates expect it: transformers' settings and functions."""
    env = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=Missing,
        extensions=["jinja2.ext.loopcontrols", GenerationTag],
    )
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    env.filters["tojson"] = tojson
    return env


_ENVIRONMENT = environment()


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(source)


def render(source: str, variables: Mapping[str, Any]) -> str:
    """The text; TemplateRuntimeError when it gets too long."""
    chunks = []
    length = 0
    for chunk in _compiled(source).generate(variables):
        length += len(chunk)
        if length > OUTPUT:
            raise TemplateRuntimeError(f"more than {OUTPUT >> 20} MiB of text")
        chunks.append(chunk)
    return "".join(chunks)


def answer(line: bytes, memory: str) -> dict[str, str]:
    """The answer to one request: `text`, or `error` in words. It may take `memory` MiB."""
    try:
        request = json.loads(line)
        return {"text": render(request["template"], request["variables"])}
    except MemoryError:
        return {"error": f"needs more than {memory} MiB of memory"}
    except RecursionError:
        return {"error": "calls itself too deeply"}
    except jinja2.TemplateSyntaxError as error:
        return {"error": f"line {error.lineno}: {error.message}"}
    except jinja2.TemplateError as error:
        return {"error": error.message or type(error).__name__}
    except Exception as error:  # noqa: BLE001  a template can raise anything; the parent gets it
        return {"error": f"{type(error).__name__}: {error}"}


def main(memory: str) -> None:
    """Answers until the parent closes the pipe, or goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is meant for the parent
    out = sys.stdout.buffer
    out.write(b"ready\n")
    out.flush()
    for line in sys.stdin.buffer:
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, ALARM)
        reply = json.dumps(answer(line, memory), ensure_ascii=False)
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, 0)
        out.write(reply.encode("utf-8", "surrogatepass") + b"\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1])
