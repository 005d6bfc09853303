"""What policies and people decide, as data: a file for each kind, with its effect beside it."""
