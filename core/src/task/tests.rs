//! The turns of a task come in any order, and stand as if they had come in theirs.

use super::needs::{Asking, Condition, Lane, Needs};
use super::numbers::{Column, pack, unpack, word};
use super::turns::{New, Turns, Watch};
use super::values::{Names, Value, write};
use super::waiting::{Waiting, id_of, key_of};
use crate::count::how::NS_PER_S;
use crate::count::marks::mark;
use crate::count::row::{Row, Words};
use crate::count::tests::{at, call, counting};
use crate::count::turn::Turn;

fn column(name: &str) -> Column {
    Column::named(name).expect("rules see it")
}

fn watch() -> Watch {
    let lane = Lane {
        kinds: 1,
        by: Some(column("agent")),
        epoch: column("epoch"),
        once: column("twin"),
        required: Vec::new(),
        lookback: 3,
    };
    Watch {
        counting: counting(),
        needs: Needs {
            lanes: vec![lane],
            bounds: vec![Asking {
                rule: 7,
                lane: 0,
                ways: vec![vec![Condition::Again(0)]],
                least_ns: 0,
            }],
            again: vec![vec![column("call"), column("outcome")]],
            kind: column("kind"),
        },
        failed: column("failed"),
        epoch: column("epoch"),
        resets_seen: column("resets_seen"),
        horizon_ns: 120 * NS_PER_S,
        spread_ns: 60 * NS_PER_S,
        waiting_max: 100,
        steps_max: 10,
        failures_max: 10,
        long_ns: 60 * NS_PER_S,
        traces_max: 10,
        settled_at_once: 8,
    }
}

fn new(turn: &Turn, span_id: &str) -> New {
    let marked = mark(turn, &counting());
    let trace_id = turn.trace_id.unwrap_or_default();
    New {
        at: Waiting {
            id: id_of(trace_id, span_id, turn.kind, None),
            step: marked.step,
            start_ns: turn.start_ns,
            end_ns: turn.end_ns,
            kind: marked.row.kind,
            ..Waiting::default()
        },
        key: key_of(turn, span_id),
        marked,
        evidence: span_id.into(),
    }
}

fn took(turns: &mut Turns, every: Vec<New>, gone: &[i64]) -> usize {
    for one in &every {
        turns.note(one.at.end_ns);
    }
    turns.take(every, gone, &watch())
}

fn numbers_of(turns: &Turns) -> Vec<Words> {
    (0..turns.len()).map(|at| turns.words(at)).collect()
}

#[test]
fn numbers_are_read_as_they_were_written() {
    let wild = Row {
        call: -5,
        outcome: i64::MAX,
        visits: 70_000,
        end_ns: 3,
        tests_failed: f64::NAN,
        tests_total: 0.0,
        coverage: 12.5,
        searches: true,
        ..Row::default()
    };
    for row in [wild, Row::default()] {
        let (words, mut bytes) = (row.words(), Vec::new());
        pack(&words, &mut bytes);
        let each = ["call", "outcome", "agent", "visits"].map(column);
        assert!(
            each.iter()
                .all(|at| word(&bytes, *at) as i64 == at.of(&words))
        );
        let mut rest = &bytes[..];
        assert_eq!((unpack(&mut rest), rest), (words, &[][..]));
        assert_eq!(column("visits").of(&words), row.visits);
        assert_eq!(column("searches").of(&words), i64::from(row.searches));
    }
    assert_eq!(Column::named("coverage"), None);
    assert_eq!(Column::named("turn"), None, "no rule sees it");
}

#[test]
fn turns_in_any_order_are_counted_as_in_theirs() {
    let each = |n: i64| new(&call(n, "run", "boom"), &format!("{n}"));
    let (mut straight, mut mixed) = (Turns::default(), Turns::default());
    took(&mut straight, (0..9).map(each).collect(), &[]);
    let begins = [5, 0, 8, 3, 1, 2, 7, 4, 6].map(|n| took(&mut mixed, vec![each(n)], &[]));
    assert_eq!(begins, [0, 0, 2, 1, 1, 2, 5, 4, 6]);
    assert_eq!(numbers_of(&straight), numbers_of(&mixed));
    let wrong = id_of("t", "4", "tool", None);
    assert!(mixed.may_move(wrong));
    assert_eq!(took(&mut mixed, vec![each(3)], &[wrong]), 3);
    assert!(!mixed.may_move(wrong) && mixed.len() == 8);
}

#[test]
fn turns_at_rest_go_on_as_they_were() {
    let each = |n: i64| new(&call(n, "run", "boom"), &format!("{n}"));
    let (mut awake, mut rested) = (Turns::default(), Turns::default());
    for n in (0..300).step_by(7) {
        took(&mut awake, vec![each(n)], &[]);
        took(&mut rested, vec![each(n)], &[]);
        let settling = [&awake, &rested].map(|turns| turns.settling(&watch()));
        assert_eq!(settling[0], settling[1]);
        assert_eq!(
            awake.settle(settling[0], &watch()),
            rested.settle(settling[0], &watch())
        );
        let bytes = rested.written().expect("it can be written");
        rested = Turns::read(&bytes, &watch()).expect("it was written");
        assert_eq!(rested.settled, awake.settled);
        assert_eq!(numbers_of(&rested), numbers_of(&awake));
    }
    for turns in [&mut awake, &mut rested] {
        assert!(took(turns, vec![each(200), each(297)], &[]) < 20);
    }
    assert_eq!(numbers_of(&rested), numbers_of(&awake));
}

#[test]
fn a_rule_is_asked_where_it_may_fire() {
    let mut turns = Turns::default();
    let said = ["a", "b", "a"].map(|said| call(0, "run", said));
    for (second, one) in said.into_iter().enumerate() {
        let end_ns = second as i64 * NS_PER_S;
        let one = Turn { end_ns, ..one };
        let begin = took(&mut turns, vec![new(&one, &format!("{second}"))], &[]);
        let asked = turns.asked(begin, 0, &watch());
        assert_eq!(asked.contains(&7), second == 2, "{second}");
    }
}

#[test]
fn settled_turns_are_kept_as_far_as_rules_look_back() {
    let mut turns = Turns::default();
    let every = (0..20).map(|n| new(&call(n, "run", "a"), &format!("{n}")));
    took(&mut turns, every.collect(), &[]);
    assert_eq!(turns.settling(&watch()), 0);
    took(&mut turns, vec![new(&at(300, "model"), "last")], &[]);
    assert_eq!(turns.settling(&watch()), 20);
    let last = turns.settle(20, &watch()).expect("there is one");
    assert_eq!(column("steps").of(&last), 20);
    assert_eq!((turns.settled, turns.len()), (2, 3));
    let next = took(&mut turns, vec![new(&call(301, "run", "a"), "next")], &[]);
    assert_eq!(next, 1);
    assert_eq!(turns.row(turns.len() - 1).turn, 22);
}

#[test]
fn parallel_calls_stand_together_but_for_slow_ones() {
    let step = |n, said| Turn {
        step: Some("s"),
        start_ns: 0,
        ..call(n, "run", said)
    };
    let mut turns = Turns::default();
    for (n, one) in [
        step(10, "a"),
        call(20, "look", "b"),
        step(30, "c"),
        step(90, "d"),
    ]
    .into_iter()
    .enumerate()
    {
        took(&mut turns, vec![new(&one, &format!("{n}"))], &[]);
    }
    let waiting = turns.waiting().iter().enumerate();
    let placed: Vec<_> = waiting
        .map(|(at, one)| (turns.evidence(at), one.together))
        .collect();
    let expected = [("0", true), ("2", true), ("1", false), ("3", false)];
    assert_eq!(placed, expected.map(|(span, is)| (span.as_bytes(), is)));
}

#[test]
fn values_are_read_as_they_were_written() {
    let texts = ["00ff", "0f0", "00FF", "é", "", "tool"];
    let mut values = vec![Value::None, Value::Flag(false), Value::Flag(true)];
    values.extend([0, -1, i64::MAX].map(Value::Number));
    values.extend(texts.map(|text| Value::Text(text.into())));
    let (mut names, mut bytes) = (Names::default(), Vec::new());
    for value in &values {
        write(value, &mut bytes);
    }
    names.put(Some("tool"), &mut bytes);
    names.put(None, &mut bytes);
    let named = bytes.len();
    names.put(Some("tool"), &mut bytes);
    assert_eq!(bytes.len(), named + 1);
    values.extend([Value::Name("tool"), Value::None, Value::Name("tool")]);
    let mut rest = &bytes[..];
    let read: Vec<_> = values.iter().map(|_| names.take(&mut rest)).collect();
    assert_eq!(read, values);
}
