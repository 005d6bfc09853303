"""Which cold groups to merge: `state_manager.py` while the query runs, `clean_up.py` when everything owed is paid."""

from watersmeet.adapt.policies.merge.clean_up import clean_up
from watersmeet.adapt.policies.merge.state_manager import MergePace, choose_merge

__all__ = ["MergePace", "choose_merge", "clean_up"]
