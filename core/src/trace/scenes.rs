//! What turns are made of which spans, from the definitions.

use super::every::Every;
use super::span::Span;
use super::turn::{Kind, Turn};
use std::sync::Arc;

use crate::fields::failures::Failure;
use crate::fields::message::{Message, ToolCall, ToolResult};
use crate::fields::span_fields::{Rare, Role, SpanFields, apart};

/// A span of trace `t` from one time to another.
pub fn span(id: &str, kind: impl Into<Option<Role>>, at: (i64, i64)) -> SpanFields {
    SpanFields {
        trace_id: "t".into(),
        span_id: id.into(),
        kind: kind.into(),
        name: "ls".into(),
        start_ns: at.0,
        end_ns: at.1,
        ..SpanFields::default()
    }
}

pub fn below(parent: &str, span: SpanFields) -> SpanFields {
    SpanFields {
        parent_span_id: Some(parent.into()),
        ..span
    }
}

pub fn call(id: Option<&str>, name: &str, arguments: &str) -> ToolCall {
    let (call_id, arguments) = (id.map(str::to_owned), Some(arguments.to_owned()));
    ToolCall {
        call_id,
        name: name.into(),
        arguments,
    }
}

pub fn says(role: &str, text: &str) -> Message {
    Message {
        role: role.into(),
        text: Some(text.into()),
        ..Message::default()
    }
}

pub fn asks(calls: &[ToolCall]) -> Message {
    Message {
        calls: calls.to_vec(),
        ..says("assistant", "")
    }
}

pub fn returns(id: &str, text: &str) -> Message {
    let (call_id, text) = (Some(id.to_owned()), Some(text.to_owned()));
    let result = ToolResult {
        call_id,
        text,
        failed: None,
    };
    Message {
        results: vec![result],
        ..says("tool", "")
    }
}

pub fn model(id: &str, at: (i64, i64), given: &[Message], answer: Message) -> SpanFields {
    let given = Some(given.iter().cloned().map(Arc::new).collect());
    let answer = Some(vec![Arc::new(answer)]);
    SpanFields {
        given,
        answer,
        ..span(id, Role::Model, at)
    }
}

/// The turns of some spans, by their ends.
pub fn turns(spans: &[SpanFields]) -> Vec<Turn<'static>> {
    let mut every = Every::new(false);
    for each in spans {
        every.take(Span::new(each.clone(), 0));
    }
    let mut found: Vec<Turn<'_>> = every
        .make(1, |told: &mut Vec<_>, _, made| {
            told.extend(made.turns.into_iter().map(Turn::into_owned));
        })
        .concat();
    found.sort_by_key(|turn| (turn.end_ns, turn.start_ns, turn.key()));
    found
}

fn calls(spans: &[SpanFields]) -> Vec<Turn<'static>> {
    turns(spans)
        .into_iter()
        .filter(|turn| turn.kind == Kind::Tool)
        .collect()
}

#[test]
fn a_call_is_one_turn_whether_its_span_names_it_or_not() {
    let asked = asks(&[call(Some("1"), "ls", "{\"p\":\"x\"}")]);
    let asking = model("m", (0, 1), &[], asked);
    let named = SpanFields {
        call_id: Some("1".into()),
        ..span("a", Role::Tool, (2, 3))
    };
    let bare = SpanFields {
        arguments: Some("x".into()),
        ..span("a", Role::Tool, (2, 3))
    };
    let alone = span("a", Role::Tool, (2, 3));
    for tool in [named, bare, alone] {
        let found = calls(&[asking.clone(), tool]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].arguments.as_deref(), Some("{\"p\":\"x\"}"));
        assert_eq!(
            (&*found[0].span_id, found[0].call_id.as_deref()),
            ("a", Some("1"))
        );
    }
}

#[test]
fn a_call_without_a_span_ends_when_the_next_model_starts_and_has_its_result() {
    let asked = asks(&[call(Some("1"), "ls", "{}"), call(Some("2"), "rm", "{}")]);
    let first = model("m", (0, 1), &[], asked.clone());
    let given = [says("user", "go"), asked, returns("1", "a b")];
    let found = calls(&[first, model("n", (5, 6), &given, says("assistant", "done"))]);
    let told: Vec<_> = found
        .iter()
        .map(|turn| (turn.end_ns, turn.result.as_deref()))
        .collect();
    assert_eq!(told, [(5, Some("a b")), (5, None)]);
    assert!(found.iter().all(|turn| turn.step.as_deref() == Some("m")));
}

#[test]
fn the_last_call_of_an_id_before_a_span_began_is_its_call() {
    let ask = |id: &str, at: i64, arguments: &str| {
        model(
            id,
            (at, at + 1),
            &[],
            asks(&[call(Some("1"), "ls", arguments)]),
        )
    };
    let tool = |id: &str, at: i64| SpanFields {
        call_id: Some("1".into()),
        ..span(id, Role::Tool, (at, at + 1))
    };
    let found = calls(&[
        ask("m", 0, "{\"p\":1}"),
        tool("a", 2),
        ask("n", 4, "{\"p\":2}"),
        tool("b", 6),
    ]);
    let arguments: Vec<_> = found.iter().map(|turn| turn.arguments.as_deref()).collect();
    assert_eq!(arguments, [Some("{\"p\":1}"), Some("{\"p\":2}")]);
}

#[test]
fn a_span_of_no_kind_is_a_call_that_a_model_asked_for() {
    let asking = model("m", (0, 1), &[], asks(&[call(Some("1"), "ls", "{}")]));
    let arguments = Some("{}".to_owned());
    let bare = SpanFields {
        arguments: arguments.clone(),
        ..span("a", None, (2, 3))
    };
    let other = SpanFields {
        arguments,
        name: "rm".into(),
        ..span("b", None, (2, 3))
    };
    let found = calls(&[asking, bare, other]);
    assert_eq!(
        found.iter().map(|turn| &*turn.span_id).collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn a_span_that_was_written_twice_is_one_turn_with_what_both_know() {
    let outer = SpanFields {
        result: Some("a".into()),
        ..span("a", Role::Tool, (0, 4))
    };
    let inner = SpanFields {
        name: "LS".into(),
        failed: Some(true),
        failure: apart(Failure {
            message: Some("no".into()),
            ..Failure::default()
        }),
        ..below("a", span("b", Role::Tool, (1, 3)))
    };
    let found = calls(&[outer.clone(), inner]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].error.as_deref(), Some("no"));
    assert_eq!(
        (found[0].failed, found[0].result.as_deref()),
        (Some(true), Some("a"))
    );
    let another = SpanFields {
        name: "rm".into(),
        ..below("a", span("b", Role::Tool, (1, 3)))
    };
    assert_eq!(calls(&[outer, another]).len(), 2);
}

#[test]
fn a_run_within_another_agents_is_a_handoff_and_the_first_message_is_a_persons() {
    let agent = |id: &str, name: &str, at, text: &str| SpanFields {
        agent: Some(name.into()),
        given: Some(vec![Arc::new(says("user", text))]),
        ..span(id, Role::Agent, at)
    };
    let lead = agent("a", "lead", (0, 20), "mend it");
    let tool = below("a", span("c", Role::Tool, (1, 2)));
    let help = below("a", agent("b", "helper", (3, 9), "look for it"));
    let looks = below("b", span("d", Role::Tool, (4, 5)));
    let found = turns(&[lead, tool, help, looks]);
    let told: Vec<_> = found
        .iter()
        .map(|turn| (turn.kind, &*turn.agent, turn.text.as_deref()))
        .collect();
    let wanted = [
        (Kind::User, "", Some("mend it")),
        (Kind::Tool, "lead", None),
        (Kind::Tool, "helper", None),
        (Kind::Handoff, "lead", Some("look for it")),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn traces_are_one_task_by_their_session_or_by_links_and_services_have_their_own() {
    let of = |trace: &str, id: &str, service: &str| SpanFields {
        trace_id: trace.into(),
        service: Some(service.into()),
        ..span(id, Role::Tool, (1, 2))
    };
    let named = |fields: SpanFields| SpanFields {
        session: Some("s".into()),
        ..fields
    };
    let tasks = |spans: &[SpanFields]| {
        let found = turns(spans);
        found
            .iter()
            .map(|turn| turn.task.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        tasks(&[named(of("a", "1", "x")), named(of("b", "2", "y@z"))]),
        ["s@x", "s@y%40z"]
    );
    let linked = SpanFields {
        rare: apart(Rare {
            links: vec!["a".into()],
            ..Rare::default()
        }),
        ..of("b", "2", "y")
    };
    assert_eq!(
        tasks(&[named(of("a", "1", "x")), linked.clone()]),
        ["s@x", "s@x"]
    );
    assert_eq!(
        tasks(&[named(of("a", "1", "x")), named(linked)]),
        ["s@x", "s@x"]
    );
    let declares = |name: &str, parent: &str, fields| SpanFields {
        rare: apart(Rare {
            task: Some(name.into()),
            task_parent: Some(parent.into()),
            ..Rare::default()
        }),
        ..fields
    };
    let below = [
        declares("c", "b", of("a", "1", "x")),
        declares("b", "r", of("b", "2", "x")),
    ];
    assert_eq!(tasks(&below), ["r", "r"]);
}

#[test]
fn a_later_trace_of_the_session_shows_a_result_and_is_no_second_call() {
    let asked = asks(&[call(Some("1"), "ls", "{}")]);
    let of = |trace: &str, fields: SpanFields| SpanFields {
        trace_id: trace.into(),
        session: Some("s".into()),
        ..fields
    };
    let first = of("a", model("m", (0, 1), &[], asked.clone()));
    let given = [says("user", "go"), asked, returns("1", "a b")];
    let second = of("b", model("n", (5, 6), &given, says("assistant", "done")));
    let found = calls(&[first, second.clone()]);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].trace_id, found[0].result.as_deref()),
        ("a", Some("a b"))
    );
    // Without the first trace, the history tells of the call.
    assert_eq!(calls(&[second])[0].start_ns, 4);
}

#[test]
fn an_attempt_at_a_declared_task_is_a_switch_of_the_session_too() {
    let attempt = SpanFields {
        rare: apart(Rare {
            status: Some("blocked".into()),
            task: Some("a".into()),
            ..Rare::default()
        }),
        ..span("a", None, (0, 1))
    };
    let found = turns(&[attempt]);
    let told: Vec<_> = found
        .iter()
        .map(|turn| (turn.kind, &*turn.task, turn.subtask.as_deref()))
        .collect();
    assert_eq!(
        told,
        [(Kind::Attempt, "a", None), (Kind::Switch, "t", Some("a"))]
    );
}
