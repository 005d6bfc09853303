"""One policy a file: view in, decision out. `spill/` says what leaves memory, `merge/` what is read back."""
