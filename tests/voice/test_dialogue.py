from hypothesis import given
from hypothesis import strategies as st

from llm.chat import Message
from llm.prompt import estimated_tokens, fit
from voice.dialogue import Dialogue, Entry, SpokenClause, heard_text

COUNT = (SpokenClause("One, two, three,", 1.5), SpokenClause(" four, five, six.", 1.5))


def test_history_holds_exactly_the_words_that_were_played() -> None:
    assert heard_text(COUNT, 0.0) == ""
    assert heard_text(COUNT, 0.6) == "One"
    assert heard_text(COUNT, 1.5) == "One, two, three,"
    assert heard_text(COUNT, 2.6) == "One, two, three, four, five"
    assert heard_text(COUNT, 9.0) == "One, two, three, four, five, six."


def test_chinese_is_cut_between_characters() -> None:
    clause = (SpokenClause("今天天气很好。", 1.2),)
    assert heard_text(clause, 0.6) == "今天天"


@given(st.lists(st.tuples(st.text(min_size=1, max_size=30), st.floats(0.01, 5)), max_size=5), st.floats(0, 20))
def test_what_was_heard_is_a_prefix_of_what_was_said(clauses: list[tuple[str, float]], heard: float) -> None:
    spoken = tuple(SpokenClause(text, seconds) for text, seconds in clauses)
    whole = "".join(text for text, _ in clauses).strip()
    assert whole.startswith(heard_text(spoken, heard))


def test_a_reply_of_which_nothing_was_heard_leaves_no_trace() -> None:
    dialogue = Dialogue("Be kind.")
    dialogue.add(Entry("a", "user", "Count."))
    dialogue.add(Entry("b", "assistant", "One, two, three, four, five, six.", COUNT))
    assert dialogue.truncate("b", 2.6) == "One, two, three, four, five"
    assert dialogue.messages()[-1] == Message("assistant", "One, two, three, four, five")
    assert dialogue.truncate("b", 0.0) == ""
    assert [entry.item_id for entry in dialogue.entries()] == ["a"]
    assert dialogue.truncate("nobody", 1.0) is None
    assert dialogue.truncate("a", 1.0) is None


def test_successive_turns_of_the_caller_are_one_message() -> None:
    dialogue = Dialogue("")
    dialogue.add(Entry("a", "user", "I want to"))
    assert dialogue.messages("book a table.") == [Message("user", "I want to book a table.")]


def test_history_is_bounded() -> None:
    dialogue = Dialogue("", limit=10)
    for i in range(50):
        dialogue.add(Entry(str(i), "user", "x"))
    assert len(dialogue.entries()) == 10


def test_trimming_keeps_the_system_prompt_and_the_newest_turns() -> None:
    messages = [Message("system", "s" * 300)]
    for i in range(40):
        messages += [Message("user", f"question {i} " * 5), Message("assistant", f"answer {i} " * 5)]
    kept = fit(messages, 1000)
    assert kept[0] == messages[0]
    assert kept[-1] == messages[-1]
    assert kept[1].role == "user"
    assert sum(map(estimated_tokens, kept)) <= 600
    assert fit(messages[:5], 1000) == messages[:5]


def test_trimming_happens_rarely_so_that_the_prompt_cache_lasts() -> None:
    messages = [Message("system", "s" * 300)]
    first_kept = set()
    for i in range(60):
        messages += [Message("user", f"question {i} " * 5), Message("assistant", f"answer {i} " * 5)]
        first_kept.add(fit(messages, 1000)[1])
    assert len(first_kept) <= 10


def test_old_turns_are_forgotten_between_turns_and_rarely() -> None:
    dialogue, cuts = Dialogue("Be kind."), 0
    for i in range(60):
        dialogue.add(Entry(f"u{i}", "user", f"question {i} " * 5))
        assert fit(dialogue.messages(), 600) == dialogue.messages(), "no answer waits for a cut"
        dialogue.add(Entry(f"a{i}", "assistant", f"answer {i} " * 5))
        before = len(dialogue.entries())
        dialogue.trim(600)
        cuts += len(dialogue.entries()) < before
    assert dialogue.entries()[0].role == "user"
    assert dialogue.entries()[-1].item_id == "a59"
    assert 3 <= cuts <= 15


def test_figures_cost_a_token_a_digit() -> None:
    """A model that repeated a read-out number filled the context with what a letter count took for a third of it."""
    assert estimated_tokens(Message("assistant", "1,000,1,90210 " * 20)) >= 13 * 20
    assert estimated_tokens(Message("assistant", "plain words " * 20)) < 100
