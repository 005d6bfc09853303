"""What draws plans for people and programs: `explain.py` as text and JSON, `picture.py` as an SVG picture."""
