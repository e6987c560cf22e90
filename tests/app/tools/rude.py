"""A tool server without the SDK that behaves badly: `python rude.py`. Its tools are its faults."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REFERS = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
TWICE = {"allOf": [{"$ref": "#/$defs/a"}] * 2}
CIRCLE = {"type": "object", "$defs": {"a": TWICE}, "$ref": "#/$defs/a"}
PATTERN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|aa)+$"}}}
SCHEMAS: dict[str, Any] = {
    "refers": REFERS,
    "circles": CIRCLE,
    "backtracks": PATTERN,
    "nonsense": {"type": "object", "properties": {"a": {"type": 7}}},
}
PLAIN = ("ok", "prints", "hangs", "dies", "floods_lines", "floods_bytes", "spawns", "no_content")


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(name: str) -> str:
    if "CALLS" in os.environ:
        with Path(os.environ["CALLS"]).open("a") as file:
            file.write(f"{name}\n")
    if name == "prints":
        print("hello, I am no message", flush=True)
    elif name == "hangs":
        time.sleep(600)
    elif name == "dies":
        os._exit(3)
    elif name == "spawns":
        return str(subprocess.Popen(["sleep", "600"]).pid)
    while name.startswith("floods"):
        os.write(1, b"y" * 65536 + (b"\n" if name == "floods_lines" else b""))
    return "done"


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    method, given = message.get("method"), message.get("params") or {}
    if method == "initialize":
        about = {"name": "rude", "version": "1"}
        version = given["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        names = {name: {"type": "object"} for name in PLAIN} | SCHEMAS
        return {"tools": [{"name": n, "inputSchema": schema} for n, schema in names.items()]}
    if method == "tools/call":
        if given["name"] == "no_content":
            return {"contents": 7}
        return {"content": [{"type": "text", "text": called(given["name"])}]}
    return None


if __name__ == "__main__":
    if "DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "HANGS" in os.environ:
        time.sleep(600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request)
            error = {"error": {"code": -32601, "message": "Method not found"}}
            send({"id": request["id"], **(error if result is None else {"result": result})})
    if "STAYS" in os.environ:  # though its input has ended
        time.sleep(600)
