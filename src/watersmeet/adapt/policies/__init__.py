"""Policies, one a file; `spill/` and `merge/` have the choices that users can name. `adapt/in_force.py` lists them."""
