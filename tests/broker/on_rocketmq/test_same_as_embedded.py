"""What callers see of the embedded broker they see of this one: its own tests, over a cluster."""

from __future__ import annotations

import pytest

from tests.broker.test_broker_consumer import *  # noqa: F403
from tests.broker.test_broker_groups import (  # noqa: F401
    test_a_former_owner_is_fenced,
    test_a_session_lasts_as_long_whatever_the_clock_is_set_to,
    test_shards_are_reassigned_on_join_leave_and_expiry,
)
from tests.broker.test_broker_topics import (  # noqa: F401
    test_a_batch_comes_back_as_it_was_appended,
    test_bytes_and_arrow_are_the_same,
    test_errors_name_the_topic_and_what_to_do,
    test_limits_cut_a_read_and_one_record_always_comes,
    test_offsets_outside_name_begin_and_end,
    test_waiting_misses_no_append,
)

pytestmark = pytest.mark.slow
