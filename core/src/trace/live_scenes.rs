//! Spans that come in any order, hostile ones, and traces that are too long or too many.

use std::collections::BTreeMap;

use super::buffer::{Buffer, News};
use super::scenes::{asks, below, call, model, returns, says, span, turns};
use super::span::Span;
use crate::fields::made_ids::is_made;
use crate::fields::span_fields::{Role, SpanFields};

/// Numbers below a count, by a seed.
fn picks(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |count| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % count
    }
}

/// Spans in which much is joined: calls, results, parents, names, copies.
fn random_spans(seed: u64) -> Vec<SpanFields> {
    let mut pick = picks(seed);
    let mut history = Vec::new();
    let mut spans = Vec::new();
    for at in 0..24_i64 {
        let id = format!("{at:02}");
        let when = (at * 4, at * 4 + 1 + i64::try_from(pick(6)).unwrap_or(0));
        let mut made = match pick(4) {
            0 => {
                let id = (pick(3) > 0)
                    .then(|| format!("{}{}", ["c", "c", "~"][pick(3) as usize], pick(9)));
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
                let shown = ["", "~"][usize::from(pick(6) == 0)];
                history.push(returns(
                    &format!("{shown}{call_id}").replace("~c", "~"),
                    "fine",
                ));
                SpanFields {
                    call_id: Some(call_id),
                    name: ["ls", "rm"][pick(2) as usize].into(),
                    arguments: (pick(2) == 0).then(|| "{}".into()),
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
        made.service =
            (at % 5 != 4).then(|| ["x", "y"][usize::try_from(at % 2).unwrap_or(0)].into());
        let rare = made.rare.get_or_insert_default();
        rare.payer = (pick(30) == 0).then(|| "s0".into());
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
                    (turn.task, turn.payer, turn.result, turn.agent, turn.end_ns),
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
                    (turn.task, turn.payer, turn.result, turn.agent, turn.end_ns),
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

/// Spans as most agents send them: a response asks for calls, which get spans, and so on; some lie
/// within agents, are failures without a text, come late, or twice.
fn working_spans(seed: u64) -> Vec<SpanFields> {
    let mut pick = picks(seed);
    let (mut history, mut spans): (Vec<_>, Vec<SpanFields>) = (Vec::new(), Vec::new());
    let (has_ids, has_history, has_spans) = (pick(4) > 0, pick(3) > 0, pick(3) > 0);
    let letter = ['c', 'c', '~'][pick(3) as usize];
    let mut now = 10;
    for round in 0..12_i64 {
        let given = if has_history || history.is_empty() {
            &history[..]
        } else {
            &history[history.len() - 1..]
        };
        let mut calls = Vec::new();
        for each in 0..pick(3) {
            let id = has_ids
                .then(|| format!("{letter}{}", round * 3 + each as i64 - pick(9) as i64 / 8));
            calls.push(call(
                id.as_deref(),
                ["ls", "rm", "cp"][pick(3) as usize],
                "{}",
            ));
        }
        let name = format!("m{round}");
        let asked = asks(&calls);
        let mut made = vec![model(&name, (now, now + 2), given, asked.clone())];
        history.push(asked);
        for (at, call) in calls.iter().enumerate() {
            let (start, at) = (now + 2 + at as i64, at as i64);
            let failed = (pick(4) == 0).then_some(true);
            if has_spans && pick(5) > 0 {
                made.push(SpanFields {
                    call_id: call
                        .call_id
                        .clone()
                        .filter(|id| !is_made(id) && pick(9) > 0),
                    arguments: call.arguments.clone(),
                    result: (pick(6) > 0).then(|| "fine".into()),
                    failed,
                    ..span(
                        &format!("{name}-{at}"),
                        Role::Tool,
                        (start, start + 1 + pick(3) as i64),
                    )
                });
            }
            history.push(returns(
                call.call_id.as_deref().unwrap_or_default(),
                &format!("fine {round}"),
            ));
        }
        if pick(6) == 0 {
            history.push(says("user", "and now?"));
        }
        if pick(8) == 0 {
            made.push(SpanFields {
                arguments: Some("{}".into()),
                ..span(&format!("{name}-x"), None, (now, now + 1))
            });
        }
        for one in &mut made {
            one.parent_span_id = match pick(12) {
                0 => Some(format!("m{}", pick(12))),
                1 => Some("late".into()),
                2 => None,
                _ => Some("root".into()),
            };
            one.agent = (pick(9) == 0).then(|| ["a", "b"][pick(2) as usize].into());
            one.user = (pick(30) == 0).then(|| "u".into());
            one.session = (pick(40) == 0).then(|| "s".into());
        }
        spans.extend(made);
        now += 4 + pick(3) as i64;
    }
    let agent = |id: &str, at| SpanFields {
        agent: Some("a".into()),
        ..span(id, Role::Agent, at)
    };
    let root = agent("root", (0, now));
    let early = spans.len() as u64;
    spans.insert(
        if pick(2) == 0 {
            0
        } else {
            pick(early) as usize
        },
        root,
    );
    spans.push(agent("late", (5, now)));
    let swaps = pick(4);
    for _ in 0..swaps {
        let at = pick(spans.len() as u64 - 1) as usize;
        spans.swap(at, at + 1);
    }
    if pick(3) == 0 {
        let again = spans[pick(early) as usize].clone();
        spans.push(again);
    }
    for one in &mut spans {
        one.trace_id = "t".into();
    }
    if pick(4) == 0 {
        for one in spans.iter_mut().filter(|_| pick(3) == 0) {
            one.trace_id = "w".into();
        }
    }
    spans
}

#[test]
fn a_response_ends_the_calls_without_spans_before_it_and_all_of_its_trace_is_not_made_again() {
    let mut buffer = Buffer::new(false, usize::MAX);
    let (mut history, mut results) = (vec![says("user", "go")], 0);
    for at in 0..20_i64 {
        let asked = asks(&[0, 1].map(|each| call(Some(&format!("c{at}-{each}")), "ls", "{}")));
        let when = (at * 4, at * 4 + 2);
        let fields = model(&format!("{at:02}"), when, &history, asked.clone());
        history.push(asked);
        history.extend([0, 1].map(|each| returns(&format!("c{at}-{each}"), "fine")));
        let news = buffer.take(vec![Span::new(fields, 0)], vec![], &mut |_| vec![]);
        let shown = news.turns.iter().filter(|turn| turn.result.is_some());
        results += shown.count();
        let again = buffer.looked_again();
        assert!(again.turns.is_empty() && again.gone.is_empty(), "{at}");
    }
    assert_eq!((results, buffer.followed), (38, 19));
}

#[test]
fn a_span_that_changes_its_own_turns_alone_gives_those_that_all_of_its_trace_gives() {
    let mut alone = 0;
    for seed in 0..300 {
        let mut buffer = Buffer::new(false, usize::MAX);
        for (at, fields) in working_spans(seed).into_iter().enumerate() {
            let span = Span::new(fields, 0);
            buffer.take(vec![span], vec![], &mut |moves| vec![true; moves.len()]);
            let news = buffer.looked_again();
            let turns: Vec<_> = news.turns.iter().map(|turn| turn.key()).collect();
            assert!(
                turns.is_empty() && news.gone.is_empty(),
                "seed {seed}, span {at}: {turns:?} {:?}",
                news.gone
            );
        }
        alone += buffer.followed;
    }
    assert!(alone > 1_100, "{alone}"); // Calls without ids of their own take whole traces.
}
