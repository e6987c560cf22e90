"""Charts in the window's colours, each with an accessible name, a cursor that arrows move, and
words or a table of its numbers.

Plots with axes are on pyqtgraph (`canvas`): heat map, lines, histogram, lanes of spans. Small
charts without axes are `Chart`s: bands, bars, legends. What is zoomed and moved is a `Stage`.
"""
