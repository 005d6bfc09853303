"""What a user can set about a run: frozen data, the same for a job file, for Spark options and for Python arguments.

Each file holds the settings of one topic. `RunSettings` (`run.py`) is what both runtimes take.
"""
