"""How many slots there are, while a query runs: by the seconds that batches take (`seconds.py`)."""
