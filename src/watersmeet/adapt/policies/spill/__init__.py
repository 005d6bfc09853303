"""Which groups to spill: the policies that a user can name, one a file.

A policy gets a view and the bytes to free, and returns the groups to spill in order; `choice.py` says what all of them
keep to. The first six are for use, the others to compare with.
"""

from watersmeet.adapt.policies.spill.adaptive_global_flush import FLUSH_SHARE, adaptive_global_flush
from watersmeet.adapt.policies.spill.bottom_up import bottom_up
from watersmeet.adapt.policies.spill.choice import SpillPolicy
from watersmeet.adapt.policies.spill.global_output import global_output
from watersmeet.adapt.policies.spill.global_output_penalty import global_output_penalty
from watersmeet.adapt.policies.spill.hash_merge import hash_merge
from watersmeet.adapt.policies.spill.high_output_first import high_output_first
from watersmeet.adapt.policies.spill.inactive_or_unproductive import inactive_or_unproductive
from watersmeet.adapt.policies.spill.largest import largest
from watersmeet.adapt.policies.spill.local_output import local_output
from watersmeet.adapt.policies.spill.random_choice import random_choice
from watersmeet.adapt.policies.spill.rate_based import rate_based
from watersmeet.errors import JobError, did_you_mean

__all__ = ["SPILL_POLICIES", "SpillPolicy", "find_spill_policy"]

SPILL_POLICIES: tuple[tuple[str, SpillPolicy], ...] = (
    ("global-output-penalty", SpillPolicy(global_output_penalty)),
    ("global-output", SpillPolicy(global_output)),
    ("local-output", SpillPolicy(local_output)),
    ("bottom-up", SpillPolicy(bottom_up)),
    ("inactive-or-unproductive", SpillPolicy(inactive_or_unproductive)),
    ("adaptive-global-flush", SpillPolicy(adaptive_global_flush, share=FLUSH_SHARE)),
    ("random", SpillPolicy(random_choice)),
    ("largest", SpillPolicy(largest)),
    ("high-output-first", SpillPolicy(high_output_first)),
    ("hash-merge", SpillPolicy(hash_merge)),
    ("rate-based", SpillPolicy(rate_based)),
)


def find_spill_policy(name: str) -> SpillPolicy:
    """The policy of this name."""
    known = dict(SPILL_POLICIES)
    if name not in known:
        raise JobError(
            f'unknown spill policy "{name}"', detail=f"There are {', '.join(known)}.", hint=did_you_mean(name, known)
        )
    return known[name]
