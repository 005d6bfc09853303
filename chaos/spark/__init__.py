"""The campaign on Spark: real drivers, real executors, and short histories, since a JVM takes seconds to start.

Nothing is simulated here, so that when a signal arrives is not drawn from the seed: a history repeats in what it does,
and not in the moment that it does it.
"""
