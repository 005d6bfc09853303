"""How a ring of time slices is kept in shape: how long it is, and how its rows lie over its slots; one a file.

`length.py` says over how many slots it is to lie, `smoothing.py` which groups change slots so that all have as many
rows, and `relocation.py` how a ring gets from one length to another, at once or by and by. `policies/adapt_ring.py`
asks them.

Each is an edit of owners: no row is written, and windows are checked at every probe, so that any of it is exact (with
rows that move from head to tail, as in [Wang09], slots would hold rows that have expired).
"""
