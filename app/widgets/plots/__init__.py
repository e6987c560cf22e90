"""Plots on pyqtgraph in the window's colours: heat map, histogram, lines, strip, lanes of spans.

Each has an accessible name, a cursor that arrows move, and a table of its numbers.
"""
