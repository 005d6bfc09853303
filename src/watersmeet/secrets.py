"""Texts that this process must not show: `keep_secret` takes one, `hide` writes something else in its place.

What an error says may have been made by Spark, Arrow or a client of a store, which quote the options and addresses that
they were given. So every text on its way out goes through `hide`: errors (`errors.py`), tracebacks, notes and events
(`cli/`), and what is raised to Spark. The list is of the process, and only ever grows: an error may be shown long after
the job that it is of.

A text of fewer than `LEAST` characters is not hidden; it would be found in words that have nothing to do with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

LEAST = 4
HIDDEN = "(hidden)"
# Names of settings that hold secrets, whoever sets them. Wider than Spark's own `spark.redaction.regex`.
_SECRET_NAME = re.compile(r"(?i)secret|passw(or)?d|passphrase|token|credential|access[._-]?key|account[._-]?key|jaas")

_HIDDEN: dict[str, str] = {}  # by text: what is shown for it


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret, by what people call those.

    >>> is_secret_name("kafka.ssl.keystore.password"), is_secret_name("spark.hadoop.fs.s3a.secret.key")
    (True, True)
    >>> is_secret_name("maxFilesPerTrigger")
    False
    """
    return _SECRET_NAME.search(name) is not None


def keep_secret(text: str, shown: str = HIDDEN) -> None:
    """From now on, `hide` writes `shown` for `text`, and for the forms that it has in addresses and in JSON."""
    for form in (text, unquote(text), quote(text, safe=""), quote(text), quote_plus(text), json.dumps(text)[1:-1]):
        if len(form) >= LEAST:
            _HIDDEN[form] = shown


def hide(text: str) -> str:
    """`text` without secrets.

    >>> keep_secret("swordfish/7", "${PASSWORD}")
    >>> hide("cannot log in with swordfish/7 at http://u:swordfish%2F7@host")
    'cannot log in with ${PASSWORD} at http://u:${PASSWORD}@host'
    """
    for secret in sorted(_HIDDEN, key=len, reverse=True):  # one may be a part of another
        if secret in text:
            text = text.replace(secret, _HIDDEN[secret])
    return text


def hide_in(value: Any) -> Any:
    """`value`, which is made as JSON is, without secrets in its texts."""
    if not _HIDDEN:
        return value
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {name: hide_in(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide_in(entry) for entry in value]
    return value
