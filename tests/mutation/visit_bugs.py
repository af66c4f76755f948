"""Bugs on purpose in the memory of pages and its visits."""

# ruff: noqa: E501  what is planted is quoted as it stands

from __future__ import annotations

from mutation.bug import Bug

VISIT_BUGS = {
    "what is older than what is known is learnt": Bug(
        module="pipeline_service.memory.known_page",
        right="    return page is None or seen.at > page.last_heard\n",
        wrong="    return page is None or seen.id != page.last_id\n",
        test="integration/pipeline/test_memory.py::read_twice and sqlite",
    ),
    "a liar is asked conditionally": Bug(
        module="pipeline_service.memory.known_page",
        right="        if self.is_liar or self.signature is None or",
        wrong="        if self.signature is None or",
        test="unit/pipeline/test_memory.py::liar",
    ),
    "another feeder feeds other pages": Bug(
        module="pipeline_service.memory.sql.visits",
        right="            if open_claim is None or not _is_of_use(open_claim, now):\n",
        wrong='            if open_claim is None or open_claim["by"] != owner:\n',
        test="integration/pipeline/test_memory.py::fed_once_whoever_dies and sqlite",
    ),
    "two feeders feed at once": Bug(
        module="pipeline_service.memory.sql.visits",
        right='            elif open_claim["by"] != owner and now < open_claim["until"] <= now + TURN_S:\n',
        wrong='            elif open_claim["by"] != owner and open_claim["until"] < now:\n',
        test="integration/pipeline/test_memory.py::fed_once_whoever_dies and sqlite",
    ),
    "what was fed is not counted out": Bug(
        module="pipeline_service.memory.sql.visits",
        right='        state["saved"] -= len(found)\n',
        wrong='        state["saved"] -= 0\n',
        test="integration/pipeline/test_memory.py::cost_what_is_allowed and sqlite",
    ),
    "what nothing is heard of is asked for as often as ever": Bug(
        module="pipeline_service.memory.sql.visits",
        right="(2 ** min(asked, _MOST_DOUBLINGS) - 1)",
        wrong="(1 - 1)",
        test="integration/pipeline/test_memory.py::due_again and sqlite",
    ),
    "answers to visits are filtered": Bug(
        module="pipeline_service.spec.config",
        right='firing.get("schedule") == self.visit_schedule\n',
        wrong='firing.get("schedule") == self.name\n',
        test="integration/pipeline/test_memory.py::what_is_known_of_it and sqlite",
    ),
    "rows of a memory are read without their lock": Bug(
        module="pipeline_service.memory.sql.effect",
        right="        lock = transaction.lock\n",
        wrong='        lock = ""\n',
        test="integration/pipeline/test_memory.py::learning_is_waited_for",
    ),
    "changes of one page that was requested twice have one key": Bug(
        module="pipeline_service.memory.page_changes",
        right="_key(memory, seen.key, at_us)",
        wrong='f"{memory}:{seen.key}:{seen.id}"',
        test="unit/pipeline/test_change_events.py::no_two_changes",
    ),
    "two processes publish the same changes at once": Bug(
        module="pipeline_service.memory.sql.change_store",
        right='if turn.get("by", owner) != owner and',
        wrong='if turn.get("by", owner) == "" and',
        test="integration/pipeline/test_page_changes.py::one_process_publishes and sqlite",
    ),
    "changes are dropped where too many wait": Bug(
        module="pipeline_service.memory.sql.change_outbox",
        right="            raise SinkUnavailable(\n",
        wrong="            return\n            raise SinkUnavailable(\n",
        test="integration/pipeline/test_page_changes.py::too_many_changes",
    ),
    "what is read again is told again": Bug(
        module="pipeline_service.memory.learning",
        right="            learnt.repeats.add(row.key)\n        elif ",
        wrong="            learnt.repeats.add(row.key)\n        if ",
        test="integration/pipeline/test_page_changes.py::event_once and sqlite",
    ),
    "a change is sent to a webhook before an older one of its page": Bug(
        module="pipeline_service.memory.sql.webhook_queue",
        right="older.page = waiting.page and older.at < waiting.at",
        wrong="1 = 0",
        test="integration/pipeline/test_page_changes.py::in_their_order and sqlite",
    ),
    "a webhook may be anywhere": Bug(
        module="crawlstream.boot.signed_post",
        right="found = self._guard.vet(await _resolved(host, port), port)",
        wrong="found = await _resolved(host, port)",
        test="integration/pipeline/test_page_changes.py::nothing_internal",
    ),
    "a page that comes back has no diff": Bug(
        module="pipeline_service.memory.sql.change_texts",
        right="_WITH_DIFF = (ChangeKind.CHANGED, ChangeKind.BACK)",
        wrong="_WITH_DIFF = (ChangeKind.CHANGED,)",
        test="integration/pipeline/test_page_changes.py::follow_each_other and sqlite",
    ),
}
