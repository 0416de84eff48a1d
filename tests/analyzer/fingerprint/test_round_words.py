"""A message of a hook or a wrapper is the same in each round, but for its number and ids."""

from looptrace._core import round_words


def test_few_words_may_be_a_persons() -> None:
    """Somebody who reads a text in parts asks for each of them so."""
    assert round_words("Go on, please.") is None
    assert round_words("You have not called the tool yet.")
