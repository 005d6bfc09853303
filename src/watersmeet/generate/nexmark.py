"""Nexmark's three streams (person, auction, bid), where every event is a function of the seed and its number.

Event e is a person, one of three auctions or one of 46 bids by e mod 50. Hot sellers, bidders and auctions move on with
the event number, so no key is heavy over a run, but inside a small batch one bidder has three quarters of the bids.

Invariant: a column of an event depends on (seed, number, rate, base) alone, so `events` for any stretch equals the
slice of the whole, column by column. A column that is not asked for is not made. There is no loop over rows.

Departs from the public generators in two ways: ids get their offset of 1,000 once everywhere (one of them adds it twice
to bidders, and its q23 stays empty for long), and a row's filler `extra` counts the bytes of all other columns.

Known limits: text is lower-case letters; a channel has one URL; prices rest on a power, whose last bit may differ
between makes of CPU, so a price may, very rarely, differ by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.errors import JobError, did_you_mean
from watersmeet.generate.arrivals import Bits, Floats, Ints, below, draw, key_of, on_the_beat, unit

Bytes = NDArray[np.uint8]

BATCH_EVENTS = 65_536
FIRST_ID = 1000
EVENTS_PER_EPOCH = 50  # 1 person, 3 auctions, 46 bids
AUCTIONS_PER_EPOCH = 3
ACTIVE_PERSONS = 1000
ACTIVE_AUCTIONS = 100
UNBORN = 10  # references may run ahead of the newest person or auction by so many
HOT_EVERY = 100  # ids between two hot ones
AUCTION_LIFE_EVENTS = 1666  # an auction lasts for the time of so many events on average
FIRST_CATEGORY, CATEGORIES = 10, 5
DISORDER_STRIDE = 953
ROW_BYTES = {"person": 200, "auction": 500, "bid": 100}
FILLER_SPREAD = 0.2

_FIRST_NAMES = ["Ada", "Ben", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Iris", "Jonas", "Kira"]
_LAST_NAMES = ["Adler", "Brook", "Castle", "Dale", "Ford", "Hill", "Lake", "Rivers", "Stone"]
_NAMES = pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])
_CITIES = pa.array(
    ["Tucson", "Sacramento", "Oakland", "Fresno", "Nampa", "Eugene", "Salem", "Tacoma", "Spokane", "Laramie"]
)
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_COLD_CHANNELS = 10_000
_CHANNELS = pa.array([*_HOT_CHANNELS, *(f"channel-{n}" for n in range(_COLD_CHANNELS))])
_URLS = pa.array(
    [
        *(f"https://nexmark.com/{name.lower()}/item.htm" for name in _HOT_CHANNELS),
        *(f"https://nexmark.com/item.htm?channel_id={n}" for n in range(_COLD_CHANNELS)),
    ]
)
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)[np.arange(256) * 26 >> 8]
_DIGITS = np.frombuffer(b"0123456789", np.uint8)[np.arange(256) * 10 >> 8]


@dataclass(frozen=True)
class _Part:
    """Some events of one kind, and the columns of them made so far."""

    kind: str
    seed: int
    numbers: Ints
    rate: float
    base_us: int
    made: dict[str, pa.Array] = field(default_factory=dict)

    def bits(self, what: str) -> Bits:
        return draw(key_of(self.seed, self.kind, what), self.numbers)

    def column(self, name: str) -> pa.Array:
        if name not in self.made:
            self.made[name] = pa.array(COLUMNS[self.kind][name](self))
        return self.made[name]

    @property
    def last_person(self) -> Ints:
        return self.numbers // EVENTS_PER_EPOCH

    @property
    def last_auction(self) -> Ints:
        # Auctions stand at places 1 to 3 of an epoch; bids come after all of them. (A person refers to no auction.)
        epoch, place = np.divmod(self.numbers, EVENTS_PER_EPOCH)
        return AUCTIONS_PER_EPOCH * epoch + np.minimum(place, AUCTIONS_PER_EPOCH) - 1

    @property
    def times(self) -> Ints:
        return on_the_beat(self.numbers, self.rate, self.base_us)


def _time(part: _Part) -> Ints:
    return part.times


def _filler(part: _Part) -> pa.Array:
    used = np.zeros(len(part.numbers), np.int64)
    for name, kind in zip(SCHEMAS[part.kind].names, SCHEMAS[part.kind].types, strict=True):
        if name != "extra":
            used += 8 if pa.types.is_int64(kind) else pc.binary_length(part.column(name)).to_numpy()
    room = np.maximum(ROW_BYTES[part.kind] - used, 0)
    spread = np.rint(room * FILLER_SPREAD).astype(np.int64)
    lengths = room - spread + below(part.bits("extra length"), 2 * spread + 1)
    return _text(part, "extra", lengths, int(ROW_BYTES[part.kind] * (1 + FILLER_SPREAD)))


def _text(part: _Part, what: str, lengths: Ints, longest: int) -> pa.Array:
    """Random letters, `lengths` of them in each row; `longest` bounds all lengths of the column, in any part of it."""
    words = -(-longest // 8)
    needed = -(-int(lengths.max(initial=0)) // 8)
    letters = _LETTERS[_random_bytes(part, what, words, needed)]
    return _strings(letters[np.arange(needed * 8) < lengths[:, None]], lengths)


def _random_bytes(part: _Part, what: str, words: int, needed: int) -> Bytes:
    """The first `needed` of the `words` words of 8 random bytes that each event has."""
    numbers = part.numbers[:, None] * words + np.arange(needed)
    bits = draw(key_of(part.seed, part.kind, what), numbers)
    return bits.astype("<u8").view(np.uint8).reshape(len(part.numbers), needed * 8)


def _strings(data: Bytes, lengths: Ints) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if offsets[-1] >= 2**31:
        raise JobError(
            "too many events for one batch",
            detail=f"A text column would take {offsets[-1]} bytes; an Arrow string column holds 2147483647.",
            hint="Ask for fewer events at a time.",
        )
    return pa.StringArray.from_buffers(
        len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))
    )


def _text_up_to(longest: int, what: str) -> Callable[[_Part], pa.Array]:
    def make(part: _Part) -> pa.Array:
        return _text(part, what, 3 + below(part.bits(f"{what} length"), longest - 2), longest)

    return make


def _one_of(choices: pa.Array, what: str) -> Callable[[_Part], pa.Array]:
    def make(part: _Part) -> pa.Array:
        return choices.take(pa.array(below(part.bits(what), len(choices))))

    return make


def _email(part: _Part) -> pa.Array:
    user = _text(part, "email user", np.full(len(part.numbers), 7), 7)
    host = _text(part, "email host", np.full(len(part.numbers), 5), 5)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(user, host, "@"), "com", ".")


def _credit_card(part: _Part) -> pa.Array:
    digits = _DIGITS[_random_bytes(part, "creditCard", 3, 3)][:, :19].copy()
    digits[:, [4, 9, 14]] = ord(" ")
    return _strings(digits.ravel(), np.full(len(digits), 19))


def _price(part: _Part, what: str) -> Ints:
    prices: Floats = 100.0 * 10.0 ** (6.0 * unit(part.bits(what)))
    return np.rint(prices).astype(np.int64)


def _random_person(part: _Part, what: str) -> Ints:
    persons = part.last_person + 1
    active = np.minimum(persons, ACTIVE_PERSONS)
    return persons - active + below(part.bits(what), active + UNBORN)


def _random_auction(part: _Part, what: str) -> Ints:
    newest = part.last_auction
    oldest = np.maximum(newest - ACTIVE_AUCTIONS, 0)
    return oldest + below(part.bits(what), newest - oldest + UNBORN + 1)


def _hot(newest: Ints) -> Ints:
    return newest // HOT_EVERY * HOT_EVERY


def _person_id(part: _Part) -> Ints:
    return FIRST_ID + part.last_person


def _auction_id(part: _Part) -> Ints:
    return FIRST_ID + part.last_auction


def _seller(part: _Part) -> Ints:
    hot = below(part.bits("seller is hot"), 4) > 0
    return FIRST_ID + np.where(hot, _hot(part.last_person), _random_person(part, "seller"))


def _category(part: _Part) -> Ints:
    return FIRST_CATEGORY + below(part.bits("category"), CATEGORIES)


def _initial_bid(part: _Part) -> Ints:
    return _price(part, "initialBid")


def _reserve(part: _Part) -> Ints:
    return _initial_bid(part) + _price(part, "reserve")


def _expires(part: _Part) -> Ints:
    life_ms = int(AUCTION_LIFE_EVENTS * 1000 / part.rate)
    return part.times + 1000 * (1 + below(part.bits("expires"), max(2 * life_ms, 1)))


def _bid_auction(part: _Part) -> Ints:
    hot = below(part.bits("auction is hot"), 2) > 0
    return FIRST_ID + np.where(hot, _hot(part.last_auction), _random_auction(part, "auction"))


def _bidder(part: _Part) -> Ints:
    hot = below(part.bits("bidder is hot"), 4) > 0
    return FIRST_ID + np.where(hot, _hot(part.last_person) + 1, _random_person(part, "bidder"))


def _bid_price(part: _Part) -> Ints:
    return _price(part, "price")


def _channel_numbers(part: _Part) -> pa.Array:
    hot = below(part.bits("channel is hot"), 2) > 0
    bits = part.bits("channel")
    return pa.array(np.where(hot, below(bits, len(_HOT_CHANNELS)), len(_HOT_CHANNELS) + below(bits, _COLD_CHANNELS)))


def _channel(part: _Part) -> pa.Array:
    return _CHANNELS.take(_channel_numbers(part))


def _url(part: _Part) -> pa.Array:
    return _URLS.take(_channel_numbers(part))


COLUMNS: Mapping[str, Mapping[str, Callable[[_Part], Ints | pa.Array]]] = {
    "person": {
        "id": _person_id,
        "name": _one_of(_NAMES, "name"),
        "emailAddress": _email,
        "creditCard": _credit_card,
        "city": _one_of(_CITIES, "city"),
        "state": _one_of(_STATES, "state"),
        "ts": _time,
        "extra": _filler,
    },
    "auction": {
        "id": _auction_id,
        "itemName": _text_up_to(20, "itemName"),
        "description": _text_up_to(100, "description"),
        "initialBid": _initial_bid,
        "reserve": _reserve,
        "ts": _time,
        "expires": _expires,
        "seller": _seller,
        "category": _category,
        "extra": _filler,
    },
    "bid": {
        "auction": _bid_auction,
        "bidder": _bidder,
        "price": _bid_price,
        "channel": _channel,
        "url": _url,
        "ts": _time,
        "extra": _filler,
    },
}
_NUMBERS = frozenset(
    ["id", "ts", "expires", "initialBid", "reserve", "seller", "category", "auction", "bidder", "price"]
)
SCHEMAS: Mapping[str, pa.Schema] = {
    kind: pa.schema([(name, pa.int64() if name in _NUMBERS else pa.string()) for name in columns])
    for kind, columns in COLUMNS.items()
}


def events(
    kind: str,
    seed: int,
    first: int,
    last: int,
    rate: float = 10_000.0,
    base_us: int = 0,
    disorder_group: int = 1,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """The persons, auctions or bids among the events that come at places `first` to `last` - 1.

    Event number n happens at `base_us` + n * 1e6 / `rate`. It also comes at place n, unless `disorder_group` is larger
    than 1: then events are shuffled in groups of that size, and come out of order. `columns` chooses columns.

    >>> events("bid", 1, 0, 7, columns=["auction", "bidder", "ts"]).to_pydict()
    {'auction': [1000, 1007, 1004], 'bidder': [1001, 1003, 1001], 'ts': [400, 500, 600]}
    """
    _check(kind, rate, disorder_group)
    schema = schema_of(kind, columns)
    numbers = np.arange(first, max(first, last))
    if disorder_group > 1:
        numbers = numbers - numbers % disorder_group + numbers * DISORDER_STRIDE % disorder_group
    place = numbers % EVENTS_PER_EPOCH
    match kind:
        case "person":
            numbers = numbers[place == 0]
        case "auction":
            numbers = numbers[(place > 0) & (place <= AUCTIONS_PER_EPOCH)]
        case _:
            numbers = numbers[place > AUCTIONS_PER_EPOCH]
    part = _Part(kind, seed, numbers, rate, base_us)
    return pa.RecordBatch.from_arrays([part.column(name) for name in schema.names], schema=schema)


def batches(
    kind: str,
    seed: int,
    first: int,
    last: int,
    rate: float = 10_000.0,
    base_us: int = 0,
    disorder_group: int = 1,
    *,
    batch_events: int = BATCH_EVENTS,
) -> Iterator[pa.RecordBatch]:
    """As `events`, in batches that cover `batch_events` events of all kinds each."""
    for start in range(first, last, batch_events):
        end = min(start + batch_events, last)
        yield events(kind, seed, start, end, rate, base_us, disorder_group)


def schema_of(kind: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of the stream `kind`, or of some of its columns."""
    if kind not in SCHEMAS:
        raise JobError(
            f'nexmark has no stream "{kind}"',
            detail=f"Its streams are {', '.join(SCHEMAS)}.",
            hint=did_you_mean(kind, SCHEMAS),
        )
    schema = SCHEMAS[kind]
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise JobError(
                f'stream "{kind}" has no column "{name}"',
                detail=f"Its columns are {', '.join(schema.names)}.",
                hint=did_you_mean(name, schema.names),
            )
    return pa.schema([schema.field(name) for name in columns])


def _check(kind: str, rate: float, disorder_group: int) -> None:
    schema_of(kind)
    if not (rate > 0 and math.isfinite(rate)):
        raise JobError(f"rate {rate:g} is not positive", detail="A rate is a number of events a second.")
    if disorder_group < 1 or disorder_group % DISORDER_STRIDE == 0:
        raise JobError(
            f"disorder group of {disorder_group} events",
            detail=f"It must be positive and no multiple of {DISORDER_STRIDE}, or events would be lost and repeated.",
        )
