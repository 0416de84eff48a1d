//! The columns of a counted turn, in the order in which they are written.

/// The kinds of turn, as their places; `rules/turns.py` says what they are.
pub const KINDS: [&str; 7] = [
    "tool", "model", "handoff", "attempt", "progress", "switch", "user",
];
/// How an attempt ended, as places from 1.
pub const STATUSES: [&str; 4] = ["pending", "in_progress", "blocked", "done"];
/// Why a response was cut off, as places from 1.
pub const CUTS: [&str; 2] = ["length", "content_filter"];
/// Who wrote a message, as places from 1; the first two are persons.
pub const SPEAKERS: [&str; 5] = [
    "intervention",
    "message",
    "same_words",
    "attempts",
    "setting",
];
/// Why counts begin anew, as places from 1.
pub const RESETS: [&str; 5] = ["person", "message", "completed", "idle", "run"];

/// The place of a name from 1; 0 where it is not among them.
#[must_use]
pub fn place(names: &[&str], name: &str) -> i64 {
    names
        .iter()
        .position(|each| *each == name)
        .map_or(0, |at| at as i64 + 1)
}

macro_rules! columns {
    (
        compared { $($compared:ident)* }
        codes { $($code:ident)* }
        figures { $($figure:ident)* }
        flags { $($flag:ident)* }
        other_codes { $($other_code:ident)* }
        other_flags { $($other_flag:ident)* }
    ) => {
        /// A turn with its codes, marks and counts, as `schema/columns.py` and `rules/turns.py`
        /// describe them.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(
            feature = "extension-module",
            pyo3::pyclass(name = "CountedTurn", module = "looptrace._core", get_all)
        )]
        pub struct Row {
            $(pub $compared: i64,)*
            $(pub $code: i64,)*
            $(pub $figure: f64,)*
            $(pub $flag: bool,)*
            $(pub $other_code: i64,)*
            $(pub $other_flag: bool,)*
            /// The last known phase before the turn.
            pub phase_before_text: Option<String>,
            /// For each turn before it that is held, which compared columns are the same, as bits.
            pub alike: Vec<u8>,
        }

        /// The columns by which a turn is compared with earlier ones.
        pub const COMPARED: &[&str] = &[$(stringify!($compared)),*];
        /// The names of all columns and their formats, as `struct` has them.
        pub const COLUMNS: &[(&str, &str)] = &[
            $((stringify!($compared), "q"),)*
            $((stringify!($code), "q"),)*
            $((stringify!($figure), "d"),)*
            $((stringify!($flag), "?"),)*
            $((stringify!($other_code), "q"),)*
            $((stringify!($other_flag), "?"),)*
        ];
        /// How many of them, from the first on, rules see.
        pub const SEEN: usize = [
            $(stringify!($compared),)* $(stringify!($code),)* $(stringify!($figure),)*
            $(stringify!($flag)),*
        ].len();

        /// All columns of many turns.
        #[allow(missing_docs)]
        #[derive(Default)]
        pub struct Columns {
            $(pub $compared: Vec<i64>,)*
            $(pub $code: Vec<i64>,)*
            $(pub $figure: Vec<f64>,)*
            $(pub $flag: Vec<bool>,)*
            $(pub $other_code: Vec<i64>,)*
            $(pub $other_flag: Vec<bool>,)*
            /// The last known phase before each turn.
            pub phases_before: Vec<Option<String>>,
        }

        impl Columns {
            /// Add a turn.
            pub fn push(&mut self, row: Row) {
                $(self.$compared.push(row.$compared);)*
                $(self.$code.push(row.$code);)*
                $(self.$figure.push(row.$figure);)*
                $(self.$flag.push(row.$flag);)*
                $(self.$other_code.push(row.$other_code);)*
                $(self.$other_flag.push(row.$other_flag);)*
                self.phases_before.push(row.phase_before_text);
            }

            /// The codes, figures and flags, each with its name.
            pub fn split(self) -> Split {
                Split {
                    codes: vec![
                        $((stringify!($compared), self.$compared),)*
                        $((stringify!($code), self.$code),)*
                        $((stringify!($other_code), self.$other_code),)*
                    ],
                    figures: vec![$((stringify!($figure), self.$figure)),*],
                    flags: vec![
                        $((stringify!($flag), self.$flag),)*
                        $((stringify!($other_flag), self.$other_flag),)*
                    ],
                    phases_before: self.phases_before,
                }
            }
        }

        impl Row {
            /// Give the bytes of each column that rules see, in order.
            fn each_seen(&self, mut put: impl FnMut(&[u8])) {
                $(put(&self.$compared.to_ne_bytes());)*
                $(put(&self.$code.to_ne_bytes());)*
                $(put(&self.$figure.to_ne_bytes());)*
                $(put(&[u8::from(self.$flag)]);)*
            }

            fn compared(&self) -> [i64; COMPARED.len()] {
                [$(self.$compared),*]
            }
        }
    };
}

columns! {
    compared { call outcome signature response error mendable search_result check }
    codes {
        agent subtask epoch resets_seen kind end_ns status task_kind phase phase_before converging
        iteration visits transitions_seen steps busy_ns errors errors_before overdue_ns waits_seen
        changes_seen calls_seen works_seen improvements figures_compared turns_since_best
        turns_since_best_before tries_since_progress tries_since_progress_before measured
        look_chars reminded cut compacted chant_times chant_chars talks_on
    }
    figures { tests_failed tests_total coverage }
    flags {
        failed external untested enters twin twin_signature twin_failure twin_external twin_search
        polls relapses works silent only_calls searches
    }
    other_codes {
        turn name speaker reset input_tokens_sum input_tokens_total output_tokens_sum
        output_tokens_total
    }
    other_flags { own changes only_reads unfinished watches pauses brief }
}

/// The bytes of the columns that rules see, with which rows begin at whole words.
pub const ROW_BYTES: usize = {
    let (mut bytes, mut at) = (0_usize, 0);
    while at < SEEN {
        bytes += if COLUMNS[at].1.as_bytes()[0] == b'?' {
            1
        } else {
            8
        };
        at += 1;
    }
    bytes.next_multiple_of(8)
};

/// All columns of many turns by the kind of their values, each with its name.
#[allow(missing_docs)]
pub struct Split {
    pub codes: Vec<(&'static str, Vec<i64>)>,
    pub figures: Vec<(&'static str, Vec<f64>)>,
    pub flags: Vec<(&'static str, Vec<bool>)>,
    pub phases_before: Vec<Option<String>>,
}

impl Row {
    /// The columns that rules see, in `ROW_BYTES` bytes.
    #[must_use]
    pub fn numbers(&self) -> Vec<u8> {
        let mut numbers = Vec::with_capacity(ROW_BYTES);
        self.each_seen(|bytes| numbers.extend_from_slice(bytes));
        numbers.resize(ROW_BYTES, 0);
        numbers
    }

    /// Note which compared columns of an earlier turn, the first of its numbers, are the same.
    pub fn compare(&mut self, earlier: [i64; COMPARED.len()]) {
        let same = self.compared().into_iter().zip(earlier);
        let bits = same
            .enumerate()
            .filter(|(_, (mine, other))| mine == other)
            .fold(0, |bits, (at, _)| bits | 1 << at);
        self.alike.push(bits);
    }

    /// Whether a turn that was compared is known to equal this one in all these columns.
    #[must_use]
    pub fn again(&self, columns: &[&str]) -> bool {
        let codes = self.compared();
        let mut asked = 0;
        for name in columns {
            match COMPARED.iter().position(|each| each == name) {
                Some(at) if codes[at] != super::codes::UNKNOWN => asked |= 1 << at,
                _ => return false,
            }
        }
        self.alike.iter().any(|bits| bits & asked == asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_written_in_whole_words() {
        let row = Row {
            call: 7,
            searches: true,
            ..Row::default()
        };
        let numbers = row.numbers();
        assert_eq!(numbers.len(), ROW_BYTES);
        assert_eq!(numbers[..8], 7_i64.to_ne_bytes());
        let mut columns = Columns::default();
        columns.push(row);
        let split = columns.split();
        assert_eq!(split.codes[0], ("call", vec![7]));
        assert_eq!(split.flags[14], ("searches", vec![true]));
        let names = split.codes.len() + split.figures.len() + split.flags.len();
        assert_eq!(names, COLUMNS.len());
    }

    #[test]
    fn a_turn_comes_again_where_one_has_all_asked_columns() {
        let mut row = Row {
            call: 1,
            outcome: 2,
            ..Row::default()
        };
        row.compare([1, 9, 0, 0, 0, 0, 0, 0]);
        assert!(row.again(&["call"]) && !row.again(&["call", "outcome"]));
        assert!(!row.again(&["signature"]), "an unknown code equals nothing");
        row.compare([1, 2, 0, 0, 0, 0, 0, 0]);
        assert!(row.again(&["call", "outcome"]) && !row.again(&["turn"]));
    }
}
