"""What to change while a query runs, as decisions made from a view of the state.

Pure: a policy gets a view and returns a decision with its reason, the same one for the same view. Nothing here reads a
file or a clock, or keeps anything between two calls.
"""
