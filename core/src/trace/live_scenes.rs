//! Spans that come in any order, hostile ones, and traces that are too long or too many.

use std::collections::BTreeMap;

use super::buffer::{Buffer, News};
use super::scenes::{asks, below, call, model, returns, span, turns};
use super::span::Span;
use crate::fields::span_fields::{Role, SpanFields};

/// Spans in which much is joined: calls, results, parents, names, copies.
fn random_spans(seed: u64) -> Vec<SpanFields> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pick = move |count: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % count
    };
    let mut history = Vec::new();
    let mut spans = Vec::new();
    for at in 0..24_i64 {
        let id = format!("{at:02}");
        let when = (at * 4, at * 4 + 1 + i64::try_from(pick(6)).unwrap_or(0));
        let mut made = match pick(4) {
            0 => {
                let id = (pick(3) > 0).then(|| format!("c{}", pick(9)));
                let asked = asks(&[call(id.as_deref(), ["ls", "rm"][pick(2) as usize], "{}")]);
                let found = model(&format!("{at:02}"), when, &history, asked.clone());
                history.push(asked);
                found
            }
            1 => SpanFields {
                agent: Some("a".into()),
                ..span(&id, Role::Agent, when)
            },
            2 => {
                let call_id = format!("c{}", pick(9));
                history.push(returns(&call_id, "fine"));
                SpanFields {
                    call_id: Some(call_id),
                    ..span(&id, Role::Tool, when)
                }
            }
            _ => SpanFields {
                arguments: Some("{}".into()),
                ..span(&id, None, when)
            },
        };
        made.trace_id = ["t", "u", "v"][pick(3) as usize].into();
        made.parent_span_id = (pick(3) == 0).then(|| format!("{:02}", pick(24)));
        made.session = (pick(5) == 0).then(|| format!("s{}", pick(2)).into());
        let rare = made.rare.get_or_insert_default();
        rare.task = (pick(9) == 0).then(|| format!("t{}", pick(2)));
        rare.links = if pick(20) == 0 {
            vec!["u".into()]
        } else {
            vec![]
        };
        spans.push(made);
    }
    spans
}

#[test]
fn any_order_and_any_sizes_of_batches_give_the_turns_of_one_feed() {
    for seed in 0..150 {
        let spans = random_spans(seed);
        let wanted: BTreeMap<_, _> = turns(&spans)
            .into_iter()
            .map(|turn| {
                (
                    turn.key(),
                    (turn.task, turn.result, turn.agent, turn.end_ns),
                )
            })
            .collect();
        let step = 1 + seed as usize % 23;
        let order: Vec<_> = (0..spans.len())
            .map(|at| &spans[at * (step | 1) % spans.len()])
            .collect();
        let mut buffer = Buffer::new(false, usize::MAX);
        let mut told = BTreeMap::new();
        let mut learn = |news: News| {
            for (_, key) in news.gone {
                told.remove(&key);
            }
            for turn in news.turns {
                told.insert(
                    turn.key(),
                    (turn.task, turn.result, turn.agent, turn.end_ns),
                );
            }
        };
        for part in order
            .chunks(1 + seed as usize % 4)
            .chain([&spans.iter().collect::<Vec<_>>()[..]])
        {
            let spans = part
                .iter()
                .map(|each| Span::new((*each).clone(), 0))
                .collect();
            learn(buffer.take(spans, vec![], &mut |moves| vec![true; moves.len()]));
        }
        learn(buffer.rest(&mut |moves| vec![true; moves.len()]));
        assert_eq!(told, wanted, "{seed}");
    }
}

#[test]
fn hostile_traces_take_no_longer_than_others() {
    let count = 10_000;
    let name = |at: i64| format!("{at}");
    let chain = |at: i64| below(&name(at - 1), span(&name(at), Role::Tool, (at, at + 1)));
    let circle = |at: i64| {
        below(
            &name((at + 1) % count),
            span(&name(at), Role::Model, (at, at + 1)),
        )
    };
    let copies = |at: i64| below("x", span(&name(at), Role::Tool, (0, 1)));
    let same_id = |at: i64| {
        model(
            &name(at),
            (at, at + 1),
            &[],
            asks(&[call(Some("1"), "ls", &format!("{at}"))]),
        )
    };
    let with_id = |at: i64| SpanFields {
        call_id: Some("1".into()),
        ..span(&format!("x{at}"), Role::Tool, (at, at))
    };
    let mut reused: Vec<_> = (0..count).map(same_id).collect();
    reused.extend((0..count).map(with_id));
    for spans in [
        (0..count).map(chain).collect(),
        (0..count).map(circle).collect(),
        (0..count).map(copies).collect(),
        reused,
    ] {
        let spans: Vec<SpanFields> = spans;
        let begin = std::time::Instant::now();
        turns(&spans);
        assert!(begin.elapsed().as_secs() < 60);
    }
}

#[test]
fn a_long_trace_loses_its_oldest_spans_and_keeps_their_turns() {
    let mut buffer = Buffer::new(false, usize::MAX);
    let mut told = 0;
    for at in 0..30_i64 {
        let tool = |each: i64| {
            let at = at * 100 + each;
            Span::new(span(&format!("{at}"), Role::Tool, (at, at + 1)), 1)
        };
        let news = buffer.take((0..100).map(tool).collect(), vec![], &mut |_| vec![]);
        assert!(news.gone.is_empty());
        told += news.turns.len();
    }
    assert_eq!(told, 3_000);
    assert!(!buffer.holds(&["t".into()]));
}

#[test]
fn traces_that_were_touched_longest_ago_make_room() {
    let mut buffer = Buffer::new(false, 10);
    for trace in ["a", "b", "c"] {
        let fields = SpanFields {
            trace_id: trace.into(),
            ..span("1", Role::Tool, (0, 1))
        };
        buffer.take(vec![Span::new(fields, 6)], vec![], &mut |_| vec![]);
    }
    assert_eq!(
        (buffer.len(), buffer.dropped, buffer.understood().turns),
        (1, 2, 3)
    );
}

#[test]
fn a_move_that_is_not_allowed_leaves_the_turns_where_they_are() {
    let tool = span("1", Role::Tool, (0, 1));
    let named = SpanFields {
        session: Some("s".into()),
        ..span("2", Role::Tool, (2, 3))
    };
    for (may, wanted) in [(true, ["s", "s"]), (false, ["s", "t"])] {
        let mut buffer = Buffer::new(false, usize::MAX);
        buffer.take(vec![Span::new(tool.clone(), 0)], vec![], &mut |_| vec![]);
        let news = buffer.take(vec![Span::new(named.clone(), 0)], vec![], &mut |moves| {
            assert!(moves[0].is_whole && moves[0].before == "t" && moves[0].after == "s");
            vec![may]
        });
        let mut tasks: Vec<_> = news
            .turns
            .iter()
            .map(|turn| turn.task.to_string())
            .collect();
        tasks.sort();
        assert_eq!(tasks, wanted);
        assert_eq!(news.gone.len(), usize::from(may));
    }
}
