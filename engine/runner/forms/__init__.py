"""Structured output: answer formats, tools, and the parser of an answer's parts."""
