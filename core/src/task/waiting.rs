//! A turn that may still move: where it stands, and what counting needs of it.

use super::numbers::{pack, put, take, unpack};
use super::values::{Names, Value, write};
use crate::count::codes::{code, pair};
use crate::count::how::Counting;
use crate::count::marks::Marked;
use crate::count::marks::asked::Asked;
use crate::count::reads::Read;
use crate::count::row::Row;
use crate::count::turn::{NEVER_NS, Turn};
use crate::count::wishes::Wish;

/// The id of a turn in its task, by trace, span, kind and call.
#[must_use]
pub fn id_of(trace: &str, span: &str, kind: &str, call: Option<&str>) -> i64 {
    let call = call.map_or(1, code);
    pair(pair(code(trace), code(span)), pair(code(kind), call))
}

/// A turn that may still move.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// `id_of` it.
    pub id: i64,
    /// The step that it shares with parallel calls, if it is known there.
    pub step: i64,
    /// Where it stands.
    pub order_ns: i64,
    /// Its start.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The place of its kind.
    pub kind: i64,
    /// Whether it stands at the first end of its step.
    pub together: bool,
}

/// By what turns are sorted, as `schema/turns.py` does: place, step, call and outcome, start, span,
/// call and kind.
pub type Order<'a> = (i64, &'a [u8], &'a [u8], i64, &'a [u8], &'a [u8], i64);

impl Waiting {
    /// By what it is sorted; its texts are those of `key_of`.
    #[must_use]
    pub fn order<'a>(&self, mut key: &'a [u8]) -> Order<'a> {
        let mut text = || {
            let length = take(&mut key) as usize;
            let (mine, more) = key.split_at(length);
            key = more;
            mine
        };
        let [step, said, span, call] = [text(), text(), text(), text()];
        let (step, said) = if self.together {
            (step, said)
        } else {
            (&[][..], &[][..])
        };
        (
            self.order_ns,
            step,
            said,
            self.start_ns,
            span,
            call,
            self.kind,
        )
    }

    /// Let it stand at its end, or at the first end of its step; return whether it moves.
    pub fn place(&mut self, first_ns: Option<i64>, spread_ns: i64) -> bool {
        let first_ns = first_ns.filter(|first| self.end_ns.saturating_sub(*first) <= spread_ns);
        let placed = (first_ns.unwrap_or(self.end_ns), first_ns.is_some());
        let moves = placed != (self.order_ns, self.together);
        (self.order_ns, self.together) = placed;
        moves
    }
}

/// The texts by which turns of one time are sorted.
#[must_use]
pub fn key_of(turn: &Turn, span_id: &str) -> Vec<u8> {
    let said = [turn.call, turn.outcome]
        .map(Option::unwrap_or_default)
        .concat();
    let (step, said) = turn.step.map_or(("", ""), |step| (step, said.as_str()));
    let mut key = Vec::new();
    for text in [step, said, span_id, turn.call_id.unwrap_or_default()] {
        put(&mut key, text.len() as u64);
        key.extend_from_slice(text.as_bytes());
    }
    key
}

/// Write what counting needs of a turn.
pub fn keep(one: &Marked, names: &mut Names, bytes: &mut Vec<u8>) {
    pack(&one.row.words(), bytes);
    let flags = u64::from(one.markers) | u64::from(one.has_id) << 1;
    let since_ns = one.phase_start_ns.wrapping_sub(NEVER_NS);
    let codes = [one.trace, one.repeated].map(|code| code as u64);
    let spent = [
        one.input_tokens,
        one.output_tokens,
        one.tokens_spent,
        one.money_spent,
    ];
    for number in [flags, since_ns as u64]
        .into_iter()
        .chain(codes)
        .chain(spent.map(|n| n as u64))
    {
        put(bytes, number);
    }
    names.put(one.phase.as_deref(), bytes);
    let figure = one
        .own_figure
        .map_or(Value::None, |own| Value::Number(own.to_bits() as i64));
    write(&figure, bytes);
    let asked = one.asked.as_deref().map_or_else(Vec::new, Asked::bytes);
    put(bytes, asked.len() as u64);
    bytes.extend_from_slice(&asked);
    let read = one.read.map_or([0; 3], Read::words);
    for word in read {
        put(bytes, word as u64);
    }
    let wish = one.wish;
    for figure in [wish.times, wish.every_ns, wish.watch_ns] {
        put(bytes, figure as u64);
    }
    for codes in [&one.ids, &one.texts] {
        put(bytes, codes.len() as u64);
        for code in codes {
            put(bytes, *code as u64);
        }
    }
}

/// Read what `keep` wrote of a turn.
#[must_use]
pub fn kept<'a>(at: &Waiting, mut rest: &'a [u8], names: &'a Names, how: &Counting) -> Marked {
    let row = Row::of(&unpack(&mut rest));
    let mut number = || take(&mut rest) as i64;
    let (flags, since_ns) = (number(), number());
    let [trace, repeated] = [number(), number()];
    let [input_tokens, output_tokens, tokens_spent, money_spent] =
        [number(), number(), number(), number()];
    let phase = names.shared(&mut rest);
    let own_figure = match names.take(&mut rest) {
        Value::Number(bits) => Some(f64::from_bits(bits as u64)),
        _ => None,
    };
    let length = take(&mut rest) as usize;
    let asked = (length > 0).then(|| Box::new(Asked::read(&rest[..length])));
    rest = &rest[length..];
    let read = Read::of_words([(); 3].map(|()| take(&mut rest) as i64));
    let [times, every_ns, watch_ns] = [(); 3].map(|()| take(&mut rest) as i64);
    let mut codes = || {
        let count = take(&mut rest);
        (0..count).map(|_| take(&mut rest) as i64).collect()
    };
    let (ids, texts) = (codes(), codes());
    Marked {
        start_ns: at.start_ns,
        order_ns: at.order_ns,
        step: at.step,
        phase_start_ns: since_ns.wrapping_add(NEVER_NS),
        markers: flags & 1 != 0,
        has_id: flags & 2 != 0,
        trace,
        repeated,
        asked,
        read,
        wish: Wish {
            times,
            every_ns,
            watch_ns,
        },
        ids,
        texts,
        input_tokens,
        output_tokens,
        tokens_spent,
        money_spent,
        phase,
        metric: how.converging.get(&row.phase).cloned(),
        own_figure,
        row,
    }
}
