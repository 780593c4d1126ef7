"""Selection: the best score, the step it was reached, and when patience has run out."""

import pytest

from selfguide.training.selection import Selection


def follow(scores, patience):
    """Takes in scores at steps 50, 100, ... until it is over; gives the selection and how many were taken."""
    selection = Selection(patience)
    for number, score in enumerate(scores, start=1):
        selection.add(50 * number, score)
        if selection.is_over:
            return selection, number
    return selection, len(scores)


def test_the_best_score_and_its_step_are_kept():
    selection, taken = follow([1.0, 3.0, 2.0, 2.5], patience=10)
    assert (selection.best, selection.best_step, selection.since_best, taken) == (3.0, 100, 2, 4)


def test_a_new_best_is_told():
    selection = Selection(10)
    assert [selection.add(step, score) for step, score in enumerate([1.0, 1.0, 0.5, 1.5])] == [True, False, False, True]


def test_scores_may_be_negative():
    assert follow([-30.0, -20.0], patience=10)[0].best == -20.0


@pytest.mark.parametrize("patience", [1, 2, 10])
def test_it_is_over_after_so_many_scores_without_a_new_best(patience):
    _, taken = follow([5.0] + [4.0] * 30, patience)
    assert taken == 1 + patience


def test_a_new_best_resets_the_count():
    """Unlike the released code, which counts every drop against the score before and never begins again."""
    scores = [5.0, *[4.0] * 9, 6.0, *[5.9, 5.8] * 20]
    selection, taken = follow(scores, patience=10)
    assert (selection.best, selection.best_step, taken) == (6.0, 550, 21)


def test_an_equal_score_is_no_new_best():
    selection, taken = follow([5.0] * 30, patience=10)
    assert (selection.best_step, taken) == (50, 11)


def test_patience_0_never_stops():
    assert follow([5.0] + [1.0] * 100, patience=0)[1] == 101


def test_before_the_first_score_nothing_is_over():
    assert not Selection(1).is_over
