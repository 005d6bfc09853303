"""What it takes to change the plan of a running query: see `__main__.py`."""
