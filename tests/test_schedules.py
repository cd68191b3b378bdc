"""Pipeline schedules: read, run, and drawn so that the fault can be seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grader import schedules
from grader.hangs import Standing, describe_standings
from grader.schedules import Action, Wait

TWO_RANKS = [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]
CROSSED = [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]]


@given(st.integers(0, 9999), st.sampled_from("FB"), st.integers(0, 9999))
def test_what_is_printed_reads_back(stage: int, kind: str, micro_batch: int) -> None:
    action = Action(stage, kind, micro_batch)
    assert schedules.read(str(action)) == action


def test_what_is_no_action_reads_as_none() -> None:
    assert [schedules.read(text) for text in ("", "F0", "0W0", "0F", "0F0 ", "-1F0", 3, None)] == [None] * 8


def test_a_schedule_that_can_be_done_is_done() -> None:
    """F and B take one slot each: (m + p - 1) * 2 = 6."""
    done = schedules.run(TWO_RANKS)
    assert (done.end, done.waits) == (6.0, {})
    assert done.starts == ((0.0, 1.0, 3.0, 5.0), (1.0, 2.0, 3.0, 4.0))


def test_a_deadlock_names_what_each_rank_waits_for() -> None:
    done = schedules.run(CROSSED)
    assert done.waits == {0: Wait("0B0", "1B0", 1), 1: Wait("1F1", "0F1", 0)}


def test_a_deadlock_is_drawn_with_its_circle() -> None:
    drawing = schedules.draw_deadlock(CROSSED, schedules.run(CROSSED))
    assert drawing.splitlines() == [
        "time      0     1     2",
        "rank 0   0F0  >0B0<",
        "rank 1    .    1F0  >1F1<",
        "+-> rank 0 stands at 0B0, which needs 1B0 of rank 1",
        "+-- rank 1 stands at 1F1, which needs 0F1 of rank 0",
    ]


def test_work_that_nobody_does_is_no_circle() -> None:
    waits = schedules.run([["0F0", "0B0"], ["1F0"]]).waits
    assert schedules.draw_cycle(waits) == "rank 0 stands at 0B0, which needs 1B0, and no rank computes that"


def test_a_rank_that_waits_for_itself_is_a_circle_of_one() -> None:
    assert schedules.draw_cycle({0: Wait("0B0", "0F0", 0)}) == "<-> rank 0 stands at 0B0, which needs 0F0 of rank 0"


def test_only_the_circle_is_drawn_not_those_who_wait_for_it() -> None:
    waits = {0: Wait("0B0", "1B0", 1), 1: Wait("1F1", "2F1", 2), 2: Wait("2B0", "1B1", 1)}
    assert [line[4:10] for line in schedules.draw_cycle(waits).splitlines()] == ["rank 1", "rank 2"]


def test_the_first_wrong_place_is_found() -> None:
    """Each fault stands at its place with its reason."""
    cases = {
        ("0F0", "0B0"): None,
        ("0B0", "0F0"): (0, "0B0 stands before its forward 0F0"),
        ("0F0", "0F0"): (1, "0F0 stands here a second time"),
        ("0F1", "0F0"): (0, "0F1 is work on a micro-batch that is not there: they are 0 to 0"),
        ("0F0", "1B0"): (1, "1B0 is work of stage 1, in the list of stage 0"),
        ("0F0", "0X0"): (1, "'0X0' is no action; write such as '0F0' or '0B0'"),
        ("0F0",): (1, "the list ends without 0B0"),
    }
    assert {row: schedules.first_fault(row, 0, 1) for row in cases} == cases
    assert schedules.first_fault(["0F1"], 0, 2) == (0, "0F1 stands where 0F0 is due")


def test_forwards_are_in_flight_until_their_backward() -> None:
    assert schedules.in_flight(["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"]) == [1, 2, 1, 2, 1, 0]


def test_a_wide_grid_is_cut_around_the_first_mark() -> None:
    """No line is wider than a terminal, and the marked cell is among those shown."""
    row = [f"0F{place}" for place in range(100)]
    grid = schedules.draw(schedules.by_place([row, row]), [(1, 70)], "place")
    assert ">0F70<" in grid
    assert max(map(len, grid.splitlines())) <= schedules.GRID_CHARS


def test_messages_that_wait_for_each_other_are_a_circle() -> None:
    """The words are those with which a deadlock of ranks is reported."""
    post = {"op": "send", "dtype": "float32", "shape": [2], "reduce": "", "line": 0, "payload_bytes": 8, "tag": 0}
    standings = [Standing(rank, "waiting", {**post, "rank": rank, "peer": 1 - rank}) for rank in (0, 1)]
    waits = schedules.message_waits(describe_standings(standings, []))
    assert schedules.draw_cycle(waits).splitlines() == [
        "+-> rank 0 stands at its send to 1, which needs a receive of rank 1",
        "+-- rank 1 stands at its send to 0, which needs a receive of rank 0",
    ]
