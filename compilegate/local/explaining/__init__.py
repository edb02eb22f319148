"""What a definition would do here, before anything starts.

explanation.py    each step: what it waits for, what runs it, why it is refused
text.py           that as lines
drawing.py        that as an SVG
"""
