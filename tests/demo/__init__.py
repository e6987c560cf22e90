"""The demo: a small model that sees drawn shapes, how it is made, and its test.

It has the architecture of Gemma 3 (a SigLIP tower of 4 layers, 16 rows to a picture of 64 x 64
pixels, 6 layers of text; 4.3 million weights) and 630 tokens. It knows one to four shapes on a
light ground: circles, squares, triangles, stars, rings and crosses; red, blue, green, yellow,
purple, orange, black or pink; small or large. `questions` lists what it can be asked, one picture
with one question or several in a row ("And the blue star?"), and then another picture.

It cannot: read, count beyond four, know other things or colours, tell which of several shapes
lies nearest, overlapping shapes apart, or what an earlier picture of a chat showed once another
is there. Asked about anything else it answers as if it were about shapes.

`scenes`, `questions`, `talk` and `dialogue` make the data, `vocabulary` the tokens, `network` and
`training` the rest; `look`, `speak` and `convert` are run one after the other, and `grade` is the
exam through transformers.
"""
