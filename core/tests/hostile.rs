//! Texts of anybody: none makes the core panic, or keeps it for long.
//!
//! `LOOPTRACE_FUZZ_TEXTS=1000000 cargo test --release --test hostile` tries as many. A failure
//! names its seed, and `LOOPTRACE_FUZZ_SEED` begins there.

use std::borrow::Cow;
use std::cell::RefCell;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use _core::count::how::{Counting, Metric};
use _core::count::task::Task;
use _core::count::turn::Turn as CountedTurn;
use _core::fields::rows::{attributes_in, events_in};
use _core::fields::span::Reader as Spans;
use _core::fields::span_fields::Given;
use _core::fields::table::{SHIPPED, Table};
use _core::fields::{json as values, literal, messages, payloads, plain, results};
use _core::same::fingerprint::fingerprint;
use _core::same::policy::{Results, Sameness, Tool};
use _core::same::turn::{Figures, Turn};
use _core::same::{
    errors, failed_tests, json, kinds, made, masks, places, quotes, request, runners, text, tools,
    traces, waits,
};
use _core::wire::bounds::Bounds;
use _core::wire::json_request::{self, Document};
use _core::wire::proto_request::{self, Request};
use _core::wire::proto_walk::{self, Piece};
use _core::wire::span::Event;
use _core::wire::value::{Map, Value};
use _core::wire::{json_text, logs, value};
use serde_json::json;

const TEXTS: u64 = 200;
const CHARS_MAX: u64 = 20_000;
// Compiled for tests, on a crowded machine; a text that backtracks takes minutes.
const LONGEST: Duration = Duration::from_secs(10);

type Reader = (&'static str, fn(&str));

const ALL_COUNTERS: masks::Counters = masks::Counters {
    calls: true,
    attempts: true,
    steps: true,
};

// Each call by its own words, and a text that it is given.
macro_rules! readers {
    ($text:ident: $($call:expr;)+) => {
        &[$((stringify!($call), |$text| { let _ = $call; })),+]
    };
}

/// Everything that reads a text.
const READERS: &[Reader] = readers! { text:
    counted(text);
    values::parse(text).map(|value| (plain::canonical(&value), plain::as_text(&value).len()));
    literal::literal(text);
    payloads::arguments_of(&Value::Text(text.into()));
    results::result_of(&Value::Text(text.into()));
    messages::messages_of(&Value::Text(text.into()), "user");
    read_as_spans(text);
    errors::answers_no(text);
    errors::is_redacted(text);
    errors::says_nothing(text);
    failed_tests::failed_tests(text);
    json::parsed(text).map(|value| json::canonical(&value));
    kinds::kind_in(text);
    kinds::kind_of_type(text);
    kinds::says_failed(text, Some(text), Some(text));
    kinds::type_in(text);
    made::made_result(text, &NOTHING.results);
    made::makes(Some(text), Some(text));
    tools::tells_figures(text);
    masks::answer(text, &DECLARED, ALL_COUNTERS);
    masks::answer(text, &NOTHING, ALL_COUNTERS);
    masks::fresh_patterns(&keyed(text), true);
    masks::masked(text, &DECLARED.masks, true);
    masks::masked(text, &NOTHING.masks, false);
    masks::named_ids(text, Some(text));
    masks::prompt_words(text, &DECLARED.masks);
    places::printed_lines(text);
    places::without_places(text);
    quotes::compared_error(text, Some("edit"), Some(text), &NOTHING);
    quotes::compared_error(text, Some("edit"), Some(&quoted(text)), &NOTHING);
    quotes::compared_error(&quoted(text), Some("run"), Some(&quoted(text)), &DECLARED);
    request::request(&turn("tool", text), &DECLARED);
    runners::figures(text);
    runners::figures_of_turn(&turn("tool", text));
    text::compared(text, text::Form::Error);
    text::compared(text, text::Form::Prompt);
    text::compared(text, text::Form::Result);
    assert_eq!(text::digest(text).len(), 16);
    assert!(text::head(text, 7).chars().count() <= 7);
    assert_eq!(text::is_longer(text, 7), text.chars().count() > 7);
    text::one_spaced(Cow::Borrowed(text));
    assert_eq!(text::sha256(text).len(), 64);
    text::slug(text);
    text::strip(text);
    tools::answers_by_code(text);
    tools::looks_at_file(text);
    tools::purpose(Some(text));
    tools::reads_by_command(text);
    traces::is_hash(text);
    traces::place_of(text, Some(text));
    waits::is_unfinished(text);
    waits::waits(text);
    fingerprint(&turn("tool", text), &DECLARED);
    fingerprint(&turn("model", text), &NOTHING);
    fingerprint(&turn("user", text), &NOTHING);
    fingerprint(&turn("handoff", text), &NOTHING);
    fingerprint(&turn("attempt", text), &NOTHING);
    fingerprint(&turn("switch", text), &NOTHING);
    fingerprint(&turn(text, text), &NOTHING);
    fingerprint(&failed("search", text), &NOTHING);
    fingerprint(&failed("edit", &quoted(text)), &DECLARED);
};

/// Count turns of all kinds with a text in each field.
fn counted(text: &str) {
    let mut how = Counting::default();
    how.converge(text, Metric::Own("a".to_owned(), true));
    let mut task = Task::default();
    let kinds = ["user", "model", "tool", "tool", "attempt"];
    for (place, kind) in kinds.into_iter().enumerate() {
        let said = Some(text);
        let turn = CountedTurn {
            kind,
            name: Some(if place == 2 { "bash" } else { text }),
            error: said.filter(|_| place == 3),
            failed: place == 3,
            end_ns: i64::MAX - text.len() as i64,
            phase: said,
            task_kind: said,
            arguments: said,
            result: said,
            text: said,
            metrics: said,
            call: said,
            outcome: said,
            ..CountedTurn::default()
        };
        assert!(task.count(&turn, &how).chant_times <= text.len() as i64);
    }
}

thread_local! {
    static SPANS: RefCell<Spans> = RefCell::new(Spans::new(
        Arc::new(Table::new(SHIPPED, None).unwrap_or_else(|error| panic!("{error}"))),
    ));
}

/// Operations, each with a key that its spans have.
const FIELD_KEYS: &[(&str, &str)] = &[
    ("chat", "gen_ai.input.messages"),
    ("chat", "gen_ai.output.messages"),
    ("chat", "llm.input_messages.0.message.content"),
    ("execute_tool", "gen_ai.tool.call.arguments"),
    ("execute_tool", "gen_ai.tool.call.result"),
];

/// Read failed spans whose every text is this one.
fn read_as_spans(text: &str) {
    let events = events_in(text);
    SPANS.with_borrow_mut(|reader| {
        for (name, key) in FIELD_KEYS {
            let mut attributes = Map::default();
            for (key, value) in [("gen_ai.operation.name", *name), (*key, text), (text, text)] {
                attributes.put(key.into(), Value::Text(value.into()));
            }
            let _ = reader.fields(span(text, &attributes, &events));
        }
        let _ = reader.fields(span(text, &attributes_in(text), &events));
    });
}

fn span<'a>(text: &'a str, attributes: &'a Map<'a>, events: &'a [Event<'a>]) -> Given<'a> {
    Given {
        trace_id: "",
        name: text,
        scope: Some(text),
        status: 2,
        status_message: Some(text),
        attributes,
        events,
    }
}

static NOTHING: LazyLock<Sameness> =
    LazyLock::new(|| Sameness::new([].into(), Vec::new(), keyed("page")).expect("no mask"));
static DECLARED: LazyLock<Sameness> = LazyLock::new(|| {
    let keys = || vec!["a.b".to_owned(), "command".to_owned()];
    let drops = Tool {
        volatile_keys: keys(),
        ..Tool::default()
    };
    let counts = Tool {
        same_call: keys(),
        ..Tool::default()
    };
    let masks = [("line", "LINE"), (r"(?i)\bbuild[ #-]*\d+", "<$build>")];
    let masks = masks.map(|(pattern, name)| (pattern.to_owned(), name.to_owned()));
    let tools = [("edit".to_owned(), drops), ("search".to_owned(), counts)];
    Sameness::new(tools.into(), masks.into(), keyed("queue depth")).expect("masks are good")
});

/// Results with a key of a team beside those of looptrace.
fn keyed(key: &str) -> Results {
    Results {
        keys: masks::volatile_keys()
            .map(str::to_owned)
            .chain([text::head(key, 200).to_owned()])
            .collect(),
        telling_keys: [key.to_owned()].into(),
    }
}

/// An edit that quotes a text.
fn quoted(text: &str) -> String {
    json!({"path": "a.py", "old_string": text, "a": {"b": [text]}}).to_string()
}

/// A turn with a text in each field.
fn turn<'a>(kind: &'a str, text: &'a str) -> Turn<'a> {
    Turn {
        kind,
        name: Some(text),
        subtask: Some(text),
        arguments: Some(text),
        result: Some(text),
        error: Some(text),
        error_type: Some(text),
        location: Some(text),
        trace: Some(text),
        text: Some(text),
        response: Some(text),
        talks_on: Some(text),
        failed: None,
        figures: Figures::default(),
    }
}

/// A failed call that tells all by its result.
fn failed<'a>(tool: &'a str, text: &'a str) -> Turn<'a> {
    Turn {
        name: Some(tool),
        error: None,
        error_type: None,
        location: None,
        trace: None,
        failed: Some(true),
        ..turn("tool", text)
    }
}

type ByteReader = (&'static str, fn(&[u8]));

/// Everything that reads bytes, by its name.
const BYTE_READERS: &[ByteReader] = &[
    ("protobuf", |data| {
        for bounds in [Bounds::NONE, FEW] {
            for is_whole in [true, false] {
                for piece in proto_walk::pieces(data, 100) {
                    let _ = proto_request::spans(&request(data, piece, is_whole), bounds);
                }
            }
            let _ = proto_request::check(data, bounds);
        }
        let _ = proto_walk::begins(data);
    }),
    ("logs", |data| {
        let _ = logs::proto(data);
        let _ = logs::json(data);
    }),
    ("json", |data| {
        for bounds in [Bounds::NONE, FEW] {
            let _ = json_request::request(data, "t", bounds);
        }
        let _ = json_request::document(&Document {
            name: "t",
            line: 1,
            data,
            problem: None,
        });
        let _ = json_text::begins_document(data);
    }),
    ("base64", |data| {
        assert_eq!(value::base64(data).len(), data.len().div_ceil(3) * 4);
    }),
];

const FEW: Bounds = Bounds {
    spans_max: 3,
    span_bytes_max: 50,
    depth_max: 5,
};

fn request(data: &[u8], piece: Piece, is_whole: bool) -> Request<'_> {
    Request {
        place: "t".into(),
        data,
        piece,
        is_whole,
    }
}

/// A request with a span that has all kinds of values.
const SPAN: &[u8] =
    b"\x0a\x7b\x0a\x12\x0a\x10\x0a\x0cservice.name\x12\x00\x12\x65\x0a\x03\x0a\x01s\x12\x5e\
\x0a\x10aaaaaaaaaaaaaaaa\x12\x08bbbbbbbb\x2a\x04chat\x39\x01\x00\x00\x00\x00\x00\x00\x00\
\x4a\x09\x0a\x01k\x12\x04\x0a\x02\xc3\xa9\x4a\x07\x0a\x01b\x12\x02\x10\x01\
\x4a\x0c\x0a\x01l\x12\x07\x2a\x05\x0a\x03\x3a\x01\x00\x4a\x09\x0a\x01m\x12\x04\x32\x02\x0a\x00\
\x5a\x03\x12\x01e\x6a\x00\x7a\x02\x18\x02";

/// The same in JSON.
const JSON: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name"}]},
"scopeSpans":[{"scope":{"name":"s"},"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c",
"spanId":"b7ad6b7169203331","startTimeUnixNano":"7","attributes":[{"key":"k","value":
{"arrayValue":{"values":[{"intValue":"1"},{"doubleValue":-1.5e3},{"stringValue":"\ud83d\ude00"}]}}}],
"events":[{"name":"e","timeUnixNano":1}],"links":[{"traceId":"a"}],"status":{"code":2}}]}]}]}
{"resource_logs":[{"scope_logs":[{"log_records":[{"body":{"kvlist_value":{"values":[]}}}]}]}]}"#;

/// Bytes like a request, damaged in places.
fn hostile_bytes(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let whole = [SPAN, JSON.as_bytes()][numbers.index(2)];
    let mut bytes = whole.repeat(1 + numbers.index(4));
    for _ in 0..numbers.below(12) {
        let at = numbers.index(bytes.len().max(1));
        match numbers.below(5) {
            0 => bytes.truncate(at.max(1)),
            1 if !bytes.is_empty() => bytes[at] = numbers.below(256) as u8,
            2 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            3 => bytes.insert(
                at,
                b"\0\xff\x80\x0a\x0b\x0c\x12\"\\{}[],:u1-"[numbers.index(18)],
            ),
            _ => {
                let end = (at + numbers.index(40)).min(bytes.len());
                let again = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes
}

/// Pieces of what attackers print; tables have what tools, runners and models do.
const PIECES: &[&str] = &[
    "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c\", \"function\": {\"name\": \"f\"}}]}, ",
    "{'a': (1, {2, 'b'}), \"c\": b'\\x00', r'\\': \"\"\"x\ny\"\"\", ",
    "{\"functionCall\": {\"toolUse\": {\"kwargs\": {\"content\": [{\"text\": ",
    "llm.input_messages.7.message.contents.0.message_content.text",
    "{\"a\": [1, 2.5e300, null, true], \"b\": \"\\ud800\\u0000\"}",
    "1e999999999999, -0, 123456789012345678901234567890, 0.1",
    "Traceback (most recent call last):\n  File \"/app/main.py\", line 7, in run\n    f(x)\n",
    "    at Object.<anonymous> (/srv/app.js:10:5)\n",
    "thread 'main' panicked at src/main.rs:4:5:\n",
    "=== FAILED tests/test_a.py::test_b[x-1] - assert 1 == 2 ===\n3 failed, 97 passed in 1.20s\n",
    "Tests: 1 failed, 2 passed, 3 total\nok 1 - a\nnot ok 2 - b\n",
    "TOTAL    120    12    90%\n",
    "error[E0425]: cannot find value `x`\n  --> src/lib.rs:1:1\n",
    "2026-01-01T00:00:00.123Z 12:34:56 1700000000 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "0xDEADBEEF deadbeefdeadbeef /tmp/tmp.aB3x 10.0.0.1:8080 pid=4242 took 3.2ms",
    "[cut hash:abcdefghijklmnop placeless:hash:abcdefghijklmnop words:hash:abcdefghijklmnop \
     exact:0123456789ab chant:999999999999999999999x1 figures:1:2:3.4]",
    "\u{1b}[31mred\u{1b}[0m\r\n",
    "é\u{301}\u{200d}\u{202e}\u{feff}İıſßﬁ🏳️‍🌈",
    "\u{0}\u{7f}\u{85}\u{2028}\u{a0}\u{10ffff}",
    "((((((((((a+)+)+)+)+)+)+)+)+)+)+$",
    "\\n\\t\\\\\"'`$(x)${y}<z>&amp;%00",
    "the same words again and again ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                ",
    "\n\n\n\n\n\n\n\n",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":{\"a\":",
    "99999999999999999999",
    "exit code 1 Process exited with code -1 status: 500",
];

/// All pieces from which texts are put together.
static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut pieces: Vec<String> = PIECES.iter().map(|piece| (*piece).to_owned()).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/core/data");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the tables stand there")
        .map(|file| file.expect("it is a file").path())
        .collect();
    files.sort();
    for file in files {
        let table: toml::Value =
            toml::from_str(&fs::read_to_string(file).expect("it is read")).expect("it is a table");
        add_examples(&table, &mut pieces);
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
});

/// Add the examples of rows, and the texts that rows do not find.
fn add_examples(value: &toml::Value, pieces: &mut Vec<String>) {
    match value {
        toml::Value::Array(items) => items.iter().for_each(|item| add_examples(item, pieces)),
        toml::Value::Table(items) => {
            for (key, item) in items {
                match item {
                    toml::Value::Array(texts) if key == "examples" || key == "others" => {
                        let texts = texts.iter().map(|text| text.get("text").unwrap_or(text));
                        pieces.extend(texts.filter_map(|text| Some(text.as_str()?.to_owned())));
                    }
                    item => add_examples(item, pieces),
                }
            }
        }
        _ => {}
    }
}

/// Numbers that look random and are the same on every machine (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    // As often one of an attacker as one of a table.
    fn piece(&mut self) -> &'static str {
        let end = [PIECES.len(), ALL.len()][self.index(2)];
        &ALL[self.index(end)]
    }
}

/// A text of few or of many pieces, one of them often or each once, and damaged in places.
fn hostile_text(seed: u64) -> String {
    let mut numbers = Numbers(seed);
    let longest = [40, 400, CHARS_MAX][numbers.index(3)];
    let is_one_piece = numbers.below(4) == 0;
    let mut piece = numbers.piece();
    let mut chars: Vec<char> = Vec::new();
    while (chars.len() as u64) < longest {
        chars.extend(piece.chars());
        if !is_one_piece {
            piece = numbers.piece();
        }
    }
    for _ in 0..numbers.below(20) {
        let at = numbers.index(chars.len());
        match numbers.below(4) {
            0 => chars.truncate(at.max(1)),
            1 => {
                chars.remove(at);
                chars.push('"');
            }
            2 => chars.insert(at, ['\u{0}', '"', '\\', '{', ']', 'İ'][numbers.index(6)]),
            _ => chars[at] = char::from_u32(numbers.index(0x11_0000) as u32).unwrap_or('\u{fffd}'),
        }
    }
    chars.into_iter().collect()
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Run all readers on a text; a fault names the reader and where the text is from.
fn read(text: &str, origin: &str) {
    for (name, reader) in READERS {
        let begun = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| reader(text)));
        assert!(done.is_ok(), "{name} panics on {origin}");
        assert!(begun.elapsed() < LONGEST, "{name} is slow on {origin}");
    }
}

/// Run all readers on bytes; a fault names the reader and where the bytes are from.
fn read_bytes(data: &[u8], origin: &str) {
    for (name, reader) in BYTE_READERS {
        let begun = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| reader(data)));
        assert!(done.is_ok(), "{name} panics on {origin}");
        assert!(begun.elapsed() < LONGEST, "{name} is slow on {origin}");
    }
}

#[test]
fn no_text_is_too_much() {
    let first = number("LOOPTRACE_FUZZ_SEED").unwrap_or(1);
    for seed in first..first + number("LOOPTRACE_FUZZ_TEXTS").unwrap_or(TEXTS) {
        read(&hostile_text(seed), &format!("seed {seed}"));
    }
}

#[test]
fn no_bytes_are_too_much() {
    let first = number("LOOPTRACE_FUZZ_SEED").unwrap_or(1);
    for seed in first..first + number("LOOPTRACE_FUZZ_TEXTS").unwrap_or(TEXTS) * 10 {
        read_bytes(&hostile_bytes(seed), &format!("seed {seed}"));
    }
    for piece in [
        SPAN,
        b"\x0a\x00",
        b"\x12\x00",
        b"\x0b",
        b"\xff",
        b"\x0a\x80\x80\x80\x80\x08",
    ] {
        read_bytes(&piece.repeat(1 << 14), "repeated bytes");
    }
    for piece in [
        JSON,
        "[",
        "{\"a\":",
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{}",
        "\\",
    ] {
        read_bytes(piece.repeat(1 << 12).as_bytes(), "repeated JSON");
    }
    let deep = "{\"arrayValue\":{\"values\":[".repeat(100_000);
    read_bytes(
        JSON.replace("{\"intValue\":\"1\"}", &deep).as_bytes(),
        "deep JSON",
    );
}

#[test]
fn each_piece_may_be_long() {
    for piece in PIECES {
        read(&piece.repeat(1 << 10), piece);
        read(&piece.chars().rev().collect::<String>().repeat(64), piece);
    }
}

#[test]
fn depth_is_bounded() {
    for opening in ["[", "{\"a\":", "(", "{\"a\":[", "<a>", "Caused by: "] {
        read(&opening.repeat(100_000), opening);
    }
}
