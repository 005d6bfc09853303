"""References to the environment in a job file: `"${KAFKA_PASSWORD}"`, so that secrets stand nowhere in the file.

`resolve` puts in the values; `$${` is the text `${`. Names of keys are left alone, and what a value says is not looked
at again. In an address, a value before the `@` or after the `?` is put in as addresses have it, with percent signs.

Keys whose values are kept in the checkpoint, and so decide what it is of, take no references: a secret there would be
written down, and a new one would make another query of it. Nor do settings that Spark is started with, on a command
line that everybody on the machine can read.

A value that options, the format of a stream or settings of Spark refer to is a secret from then on (`secrets.py`). In a
path or an address it is one where it stands before the `@` or after the `?`. Elsewhere it is a setting as any other,
and hidden in errors about the job file alone, whose writer may have taken the wrong variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from watersmeet.errors import JobError
from watersmeet.secrets import HIDDEN, LEAST, is_secret_name, keep_secret
from watersmeet.state.addresses import public_address, secret_parts

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
# Where the value is kept in the checkpoint: at the top, of a stream, or anywhere in a section.
_KEPT = (("query",), ("streams", "*", "schema"), ("streams", "*", "time"), ("streams", "*", "lateness"), ("adapt",))
_PLACES = ("path", "late", "checkpoint", "cache")
# Settings that the processes of Spark are started with.
_STARTED_WITH = ("spark.driver.", "spark.jars", "spark.submit.", "spark.executor.extraJavaOptions", "spark.files")

Keys = tuple[str, ...]


@dataclass(frozen=True)
class _Text:
    """A text of the job file, where it stands, and the value of each variable that it refers to."""

    keys: Keys
    resolved: str
    values: Mapping[str, str]

    @property
    def of_options(self) -> bool:
        """Or of what Spark is told like one."""
        return self.keys[0] == "spark" or (len(self.keys) > 2 and self.keys[2] in ("options", "format"))

    @property
    def of_place(self) -> bool:
        return self.keys[-1] in _PLACES and not self.of_options


@dataclass(frozen=True)
class Resolved:
    """A job file with its references resolved. `shown` has the values, with what to write for them."""

    data: dict[str, Any]
    shown: Mapping[str, str]


def resolve(data: Mapping[str, Any], environment: Mapping[str, str]) -> Resolved:
    """The job file with the values of `environment` in the place of references; secrets are kept from now on."""
    texts: list[_Text] = []
    result = {key: _resolve(value, (key,), environment, texts) for key, value in data.items()}
    for text in texts:
        _keep_secrets(text)
    values = [entry for text in texts for entry in text.values.items()]
    return Resolved(result, {value: f"${{{name}}}" for name, value in values if len(value) >= LEAST})


def _resolve(value: Any, keys: Keys, environment: Mapping[str, str], texts: list[_Text]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve(entry, (*keys, key), environment, texts) for key, entry in value.items()}
    if isinstance(value, list):
        return [_resolve(entry, keys, environment, texts) for entry in value]
    if not isinstance(value, str):
        return value
    found = {name: _value(name, keys, environment) for name in _names(value, keys)}
    if found:
        _refuse_where_none_may_be(keys, next(iter(found)))
    quoted = _quoted_stretches(value) if keys[-1] in _PLACES else ()

    def put_in(match: re.Match[str]) -> str:
        if not match[1]:
            return "${"
        inside = any(low <= match.start() < high for low, high in quoted)
        return quote(found[match[1]], safe="") if inside else found[match[1]]

    resolved = _REFERENCE.sub(put_in, value)
    texts.append(_Text(keys, resolved, found))
    return resolved


def _quoted_stretches(address: str) -> tuple[tuple[int, int], ...]:
    """Where an address, as it is written, takes values with percent signs for what has a meaning there: before the `@`,
    and after the `?`. So a secret may have slashes in it.

    >>> _quoted_stretches("s3://${K}:${S}@bucket/x?session_token=${T}"), _quoted_stretches("${WHERE}/x")
    (((5, 15), (23, 42)), ())
    """
    if (found := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?]*@)?", address)) is None:
        return ()
    question = address.find("?")
    options = [(question, len(address))] if question >= 0 else []
    return (*([found.span(1)] if found[1] else []), *options)


def _names(text: str, keys: Keys) -> Iterator[str]:
    """The variables that a text refers to."""
    for match in _REFERENCE.finditer(text):
        if match[0] == "${":
            raise JobError(
                f"{_where(keys)} has a reference that cannot be read",
                detail="A reference is ${NAME}, with a name of letters, digits and underscores.",
                hint="Write $${ for the text ${.",
            )
        if match[1]:
            yield match[1]


def _value(name: str, keys: Keys, environment: Mapping[str, str]) -> str:
    value = environment.get(name)
    if value is None:
        raise JobError(
            f'{_where(keys)} refers to the environment variable "{name}", which is not set',
            hint=f"Set {name} before the run, or write $${{{name}}} if the text itself is meant.",
        )
    return value


def _refuse_where_none_may_be(keys: Keys, name: str) -> None:
    if any(_is_under(keys, kept) for kept in _KEPT):
        raise JobError(
            f'{_where(keys)} refers to the environment variable "{name}"',
            detail="What it says is kept in the checkpoint and shown, and so is no place for a secret.",
            hint=f"Write the value itself, or $${{{name}}} if that text is meant.",
        )
    setting = ".".join(keys[1:])
    if keys[0] == "spark" and setting.startswith(_STARTED_WITH):
        raise JobError(
            f'{_where(keys)} refers to the environment variable "{name}"',
            detail="Spark is started with this setting, on a command line that everybody on the machine can read.",
            hint="Write the value itself if it is no secret.",
        )


def _is_under(keys: Keys, pattern: Keys) -> bool:
    return len(keys) >= len(pattern) and all(p in ("*", key) for key, p in zip(keys, pattern, strict=False))


def _where(keys: Keys) -> str:
    """A place in the job file, as its other errors name it.

    >>> _where(("query",)), _where(("run", "cache")), _where(("streams", "A", "options", "kafka.password"))
    ('"query"', '"cache" in [run]', '"kafka.password" in options of [streams.A]')
    """
    if keys[0] == "streams" and len(keys) > 3:
        return f'"{".".join(keys[3:])}" in {keys[2]} of [streams.{keys[1]}]'
    section = keys[:2] if keys[0] == "streams" else keys[:1]
    key = ".".join(keys[len(section) :])
    return f'"{key}" in [{".".join(section)}]' if key else f'"{keys[0]}"'


def _keep_secrets(text: _Text) -> None:
    for name, value in text.values.items():
        if text.of_options or (text.of_place and value not in public_address(text.resolved)):
            keep_secret(value, f"${{{name}}}")
    if text.of_place:
        for part in secret_parts(text.resolved):
            keep_secret(part, _as_written(part, text.values))
    elif text.of_options and not text.values and is_secret_name(text.keys[-1]):
        keep_secret(text.resolved)


def _as_written(part: str, values: Mapping[str, str]) -> str:
    """What to show for a part of an address: the reference that it came from, if it is one."""
    name = next((name for name, value in values.items() if value == part), None)
    return HIDDEN if name is None else f"${{{name}}}"


def refuse_secret_on_command_line(setting: str, value: Any) -> None:
    """For a setting that was given as an argument, which everybody on the machine can read while the process runs."""
    if isinstance(value, dict):
        for key, entry in value.items():
            refuse_secret_on_command_line(f"{setting}.{key}" if setting else key, entry)
        return
    if not isinstance(value, str) or _REFERENCE.search(value):
        return
    *section, key = setting.split(".")
    named = section[:1] in (["streams"], ["spark"]) and is_secret_name(setting)
    if named or (key in _PLACES and secret_parts(value)):
        raise JobError(
            f'a secret was given on the command line: the value of "{setting}"',
            detail="Whoever can list processes has seen it by now.",
            hint="Give the secret in an environment variable, and refer to it: '${NAME}', in quotes that the shell "
            "leaves alone. Replace the secret if others use the machine.",
        )
