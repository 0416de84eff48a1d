//! What the counts of turns are, turn by turn.

use super::codes::code;
use super::how::{Counting, Messages, NS_PER_S};
use super::row::{RESETS, Row, SPEAKERS};
use super::task::Task;
use super::turn::{NEVER_NS, Turn};

pub(crate) fn counting() -> Counting {
    Counting {
        idle_ns: 86_400 * NS_PER_S,
        poll_wait_ns: 30 * NS_PER_S,
        pending_wait_ns: 3 * NS_PER_S,
        run_pause_ns: 60 * NS_PER_S,
        run_rest_ns: 3_600 * NS_PER_S,
        messages_kept: 2,
        ..Counting::default()
    }
}

/// A turn of an agent, of no time at this second.
pub(crate) fn at(second: i64, kind: &'static str) -> Turn<'static> {
    Turn {
        kind,
        agent: Some("a"),
        trace_id: Some("t"),
        start_ns: second * NS_PER_S,
        end_ns: second * NS_PER_S,
        order_ns: second * NS_PER_S,
        phase_start_ns: NEVER_NS,
        tests_failed: f64::NAN,
        tests_total: f64::NAN,
        coverage: f64::NAN,
        ..Turn::default()
    }
}

/// A call with its result.
pub(crate) fn call(second: i64, name: &'static str, said: &'static str) -> Turn<'static> {
    Turn {
        name: Some(name),
        arguments: Some("{}"),
        call: Some(name),
        outcome: Some(said),
        signature: Some(name),
        result: Some(said),
        ..at(second, "tool")
    }
}

fn failure(second: i64, said: &'static str) -> Turn<'static> {
    Turn {
        failed: true,
        result: None,
        error: Some(said),
        error_kind: Some("unknown"),
        ..call(second, "run", said)
    }
}

fn said(second: i64, words: &'static str) -> Turn<'static> {
    Turn {
        call: Some(words),
        ..at(second, "user")
    }
}

pub(crate) fn counted(turns: &[Turn], how: &Counting) -> Vec<Row> {
    let mut task = Task::default();
    turns.iter().map(|turn| task.count(turn, how)).collect()
}

pub(crate) fn each<T>(turns: &[Turn], value: impl Fn(&Row) -> T) -> Vec<T> {
    counted(turns, &counting()).iter().map(value).collect()
}

pub(crate) fn in_phase(second: i64, phase: &'static str) -> Turn<'static> {
    Turn {
        phase: Some(phase),
        ..at(second, "model")
    }
}

fn named(names: &[&'static str], place: i64) -> &'static str {
    usize::try_from(place - 1).map_or("", |at| names[at])
}

fn reset_of(row: &Row) -> &'static str {
    named(&RESETS, row.reset)
}

#[test]
fn persons_are_told_from_orchestrators() {
    let turns = [
        said(0, "Fix it."),
        said(1, "Fix it."),
        Turn {
            arguments: Some("Go on."),
            ..said(2, "Go on.")
        },
        Turn {
            call_id: Some("id"),
            ..said(3, "Fix it.")
        },
        Turn {
            name: Some("blocked"),
            ..at(4, "attempt")
        },
        said(5, "Once more."),
        Turn {
            trace_id: Some("u"),
            ..at(6, "model")
        },
        // Only two messages are kept.
        said(7, "Fix it."),
    ];
    let speakers = each(&turns, |row| named(&SPEAKERS, row.speaker));
    let (new, same) = ("message", "same_words");
    let expected = [new, same, same, "intervention", "", "attempts", "", new];
    assert_eq!(speakers, expected);
    let how = Counting {
        messages: Messages::None,
        ..counting()
    };
    assert_eq!(counted(&turns[..1], &how)[0].reset, 0);
}

#[test]
fn a_brief_answer_to_a_message_that_came_again_is_one_to_a_reminder() {
    let reminder = Turn {
        arguments: Some("Go on."),
        ..said(0, "Go on.")
    };
    let answer = Turn {
        text: Some("I wait."),
        ..at(1, "model")
    };
    let late = Turn {
        text: Some("I wait."),
        ..at(2, "model")
    };
    let reminded = each(&[reminder, answer, late], |row| row.reminded);
    assert_eq!(reminded, [0, code("Go on."), 0]);
}

#[test]
fn counts_begin_anew_for_a_reason() {
    let done = |second, subtask| Turn {
        name: Some("done"),
        subtask,
        ..at(second, "attempt")
    };
    let turns = [
        said(0, "Fix it."),
        done(1, Some("part")),
        done(2, None),
        call(3, "read", "a"),
        said(70, "Fix it."),
        call(4_000, "read", "a"),
        call(100_000, "read", "a"),
    ];
    let resets = each(&turns, reset_of);
    let expected = ["person", "", "", "completed", "run", "run", "idle"];
    assert_eq!(resets, expected);
    assert_eq!(each(&turns, |row| row.epoch), [1, 1, 1, 2, 3, 4, 5]);
    assert_eq!(each(&turns, |row| row.resets_seen), [1, 1, 1, 1, 1, 1, 2]);
    assert_eq!(each(&turns, |row| row.turn), [0, 1, 2, 3, 3, 4, 5]);
    let how = Counting {
        by_decision: true,
        ..counting()
    };
    assert_eq!(reset_of(&counted(&turns, &how)[0]), "message");
}

#[test]
fn a_look_again_after_a_wait_is_a_poll() {
    let look = |second| call(second, "job_status", "42");
    let turns = [look(0), look(1), look(40), look(41), look(72)];
    let polls = each(&turns, |row| row.polls);
    assert_eq!(polls, [false, false, true, false, true]);
    assert_eq!(each(&turns, |row| row.waits_seen), [0, 0, 1, 1, 2]);
    let pending = |second| call(second, "job_status", "status: running");
    let polls = each(&[pending(0), pending(1), pending(5)], |row| row.polls);
    assert_eq!(polls, [false, false, true]);
    let busy = [look(0), call(35, "edit", "ok"), look(70)];
    assert_eq!(each(&busy, |row| row.polls), [false, false, false]);
}

#[test]
fn a_growing_pause_between_looks_is_a_wait() {
    let look = |second| call(second, "read_door", "42");
    let turns = [look(0), look(2), look(6), look(14), look(20)];
    let polls = each(&turns, |row| row.polls);
    assert_eq!(polls, [false, false, true, true, false]);
    // A model that thinks longer each time does not wait.
    let thought = |since, until| Turn {
        start_ns: since * NS_PER_S,
        ..at(until, "model")
    };
    let turns = [look(0), thought(0, 2), look(2), thought(2, 9), look(9)];
    assert_eq!(each(&turns, |row| row.polls), [false; 5]);
    let turns = [look(0), at(2, "model"), look(2), at(9, "model"), look(9)];
    let polls = each(&turns, |row| row.polls);
    assert_eq!(polls, [false, false, false, false, true]);
}

#[test]
fn some_quick_looks_at_what_may_change_are_polls() {
    let polls = |said, seconds: i64| {
        let looks: Vec<Turn> = (0..14)
            .map(|n| call(n * seconds, "get_run", said))
            .collect();
        each(&looks, |row| row.polls)
            .iter()
            .filter(|is_poll| **is_poll)
            .count()
    };
    assert_eq!(polls("phase: created", 2), 2);
    assert_eq!(polls("status: running", 2), 10);
    assert_eq!(polls("phase: created", 1), 0);
    assert_eq!(polls("status: failed", 2), 0);
}

#[test]
fn who_is_told_to_come_later_and_does_waits() {
    let told = |second| call(second, "order", "Busy, try again later.");
    let polls = |seconds: [i64; 4]| each(&seconds.map(told), |row| row.polls);
    assert_eq!(polls([0, 1, 3, 7]), [false, true, true, true]);
    assert_eq!(polls([0, 2, 4, 6]), [false, true, false, false]);
}

#[test]
fn what_one_call_makes_is_removed_by_one_call() {
    let made = |second, id| Turn {
        arguments: Some(r#"{"name":"a"}"#),
        ..call(second, "create_volume", id)
    };
    let removed = |second, call, arguments| Turn {
        arguments: Some(arguments),
        call: Some(call),
        ..self::call(second, "delete_volume", call)
    };
    let turns = [
        made(0, "v-1"),
        removed(1, "delete v-1", r#"{"id":"v-1"}"#),
        made(2, "v-2"),
        removed(3, "delete v-2", r#"{"id":"v-2"}"#),
        removed(4, "delete v-3", r#"{"id":"v-3"}"#),
    ];
    let calls = each(&turns, |row| (row.call, row.outcome));
    assert_eq!(calls[1], calls[3]);
    assert_ne!(calls[3], calls[4]);
}

#[test]
fn a_look_again_by_a_clock_is_a_wait() {
    let look = |second| call(second, "read_door", "closed");
    let polls = |turns: &[Turn]| -> Vec<bool> {
        let rows = counted(turns, &counting());
        let calls = rows.iter().filter(|row| row.is("tool"));
        calls.map(|row| row.polls).collect()
    };
    let asked = |seconds: [i64; 4]| -> Vec<bool> {
        let turns = seconds.map(|second| [at(second, "model"), look(second)]);
        polls(turns.as_flattened())
    };
    assert_eq!(asked([0, 12, 24, 36]), [false, false, true, true]);
    assert_eq!(asked([0, 12, 29, 41]), [false; 4]);
    assert_eq!(asked([0, 5, 10, 15]), [false; 4]);
    // Where no response is recorded, the pause may be that of a model.
    assert_eq!(polls(&[0, 12, 24, 36].map(look)), [false; 4]);
    // What goes well is nothing to wait for.
    let well = |second| call(second, "check_disk", r#"{"status":"ok","used":41}"#);
    let overdue = each(&[well(0), well(40), well(80)], |row| row.overdue_ns);
    assert_eq!(overdue, [0, 0, 0]);
}

#[test]
fn a_wait_is_overdue_beyond_what_was_usual() {
    let look = |second, said| call(second, "job_status", said);
    let turns = [
        look(0, "a"),
        look(40, "a"),
        look(50, "b"),
        look(90, "b"),
        look(260, "b"),
    ];
    let overdue_s = each(&turns, |row| row.overdue_ns / NS_PER_S);
    assert_eq!(overdue_s, [0, 40, 0, 0, 110]);
}

#[test]
fn a_call_relapses_where_it_went_well_before() {
    let fine = call(0, "run", "ok");
    let turns = [fine, failure(1, "boom"), failure(2, "boom")];
    assert_eq!(each(&turns, |row| row.relapses), [false, true, false]);
}

#[test]
fn more_than_two_unknown_names_in_a_row_are_one_failure() {
    let asks = |second, arguments, said| Turn {
        name: Some("sql"),
        arguments: Some(arguments),
        ..failure(second, said)
    };
    let signatures = |turns: &[Turn]| each(turns, |row| row.signature);
    let turns = [
        asks(0, "select a from orders", "no such table: orders"),
        asks(1, "select a from order_log", "no such table: order_log"),
        asks(2, "select price from items", "no such column: price"),
        asks(3, "select cost from items", "near \"cost\": syntax error"),
    ];
    let [_, second, third, fourth] = signatures(&turns)[..] else {
        panic!("a turn is missing");
    };
    assert_ne!(second, third);
    assert_eq!(third, fourth);
    // The name is not the call's own, and another failure ends the row.
    let other = asks(2, "select a from view_7", "no such table: orders");
    let too_much = asks(2, "select a from view_7", "too many rows in view_7");
    for between in [other, too_much] {
        let [first, second, _, last] = turns.clone();
        assert_ne!(signatures(&[first, second, between, last])[3], fourth);
    }
}

#[test]
fn calls_of_one_response_are_one_step() {
    let model = |second| at(second, "model");
    let turns = [
        model(0),
        failure(1, "boom"),
        failure(2, "boom"),
        model(3),
        failure(4, "boom"),
        at(5, "user"),
        failure(6, "boom"),
        failure(7, "boom"),
    ];
    let twins = each(&turns, |row| row.twin && row.twin_failure);
    let second = [false, false, true, false, false, false, false, false];
    assert_eq!(twins, second);
    assert_eq!(each(&turns, |row| row.errors)[..5], [0, 1, 1, 1, 2]);
}

#[test]
fn parallel_calls_are_one_step_of_any_traces() {
    let parallel = |trace, order| Turn {
        step: Some("s"),
        trace_id: Some(trace),
        order_ns: order,
        ..call(0, "search", "No results.")
    };
    let turns = [
        parallel("t", 0),
        parallel("u", 0),
        parallel("t", 0),
        parallel("u", 0),
        parallel("t", 9),
    ];
    let twins = each(&turns, |row| row.twin && row.twin_search);
    assert_eq!(twins, [false, false, true, true, false]);
}

#[test]
fn more_calls_than_a_response_asks_for_are_no_step() {
    let mut turns = vec![at(0, "model")];
    turns.extend((1..=10).map(|second| failure(second, "boom")));
    let count = |twins: Vec<bool>| twins.into_iter().filter(|twin| *twin).count();
    assert_eq!(count(each(&turns, |row| row.twin_failure)), 7);
    // From the fifth on, equal calls are tried by the agent.
    assert_eq!(count(each(&turns, |row| row.twin)), 3);
}

#[test]
fn times_and_tokens_of_any_size_are_counted() {
    let wild = |second| Turn {
        start_ns: i64::MIN,
        end_ns: i64::MAX,
        input_tokens: i64::MAX,
        ..call(second, "job_status", "a")
    };
    let back = Turn {
        start_ns: i64::MAX,
        end_ns: i64::MIN,
        ..call(0, "job_status", "a")
    };
    let rows = each(&[wild(0), back, wild(1)], |row| row.input_tokens_total);
    assert_eq!(rows, [i64::MAX; 3]);
}

#[test]
fn a_look_at_what_has_not_come_yet_is_a_poll_after_a_pause() {
    let look = |second| Turn {
        error_kind: Some("not_found"),
        name: Some("read_file"),
        ..failure(second, "no such file")
    };
    let waited = [look(0), look(40), look(80)];
    assert_eq!(each(&waited, |row| row.polls), [false, true, true]);
    assert_eq!(each(&waited, |row| row.error == 0), [false, true, true]);
    let busy = [look(0), look(1), look(2)];
    assert_eq!(each(&busy, |row| row.polls), [false; 3]);
}
