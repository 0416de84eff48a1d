//! The columns of a counted turn, in the order in which they are written.

use std::sync::Arc;

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
        pub struct Row {
            $(pub $compared: i64,)*
            $(pub $code: i64,)*
            $(pub $figure: f64,)*
            $(pub $flag: bool,)*
            $(pub $other_code: i64,)*
            $(pub $other_flag: bool,)*
            /// The last known phase before the turn.
            pub phase_before_text: Option<Arc<str>>,
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
            pub phases_before: Vec<Option<Arc<str>>>,
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
            /// All columns, each in a word.
            #[must_use]
            pub fn words(&self) -> Words {
                [
                    $(self.$compared as u64,)*
                    $(self.$code as u64,)*
                    $(self.$figure.to_bits(),)*
                    $(u64::from(self.$flag),)*
                    $(self.$other_code as u64,)*
                    $(u64::from(self.$other_flag),)*
                ]
            }

            /// The turn of such words; the text of its phase is not among them.
            #[must_use]
            pub fn of(words: &Words) -> Self {
                let mut each = words.iter().copied();
                let mut next = || each.next().unwrap_or_default();
                Self {
                    $($compared: next() as i64,)*
                    $($code: next() as i64,)*
                    $($figure: f64::from_bits(next()),)*
                    $($flag: next() != 0,)*
                    $($other_code: next() as i64,)*
                    $($other_flag: next() != 0,)*
                    phase_before_text: None,
                }
            }
        }
    };
}

columns! {
    compared { call outcome signature response error mendable search_result check }
    codes {
        agent name subtask epoch resets_seen kind end_ns status task_kind phase phase_before converging
        iteration visits transitions_seen steps busy_ns errors errors_before overdue_ns waits_seen
        changes_seen calls_seen works_seen improvements figures_compared turns_since_best
        turns_since_best_before tries_since_progress tries_since_progress_before measured
        look_chars reminded cut compacted chant_times chant_chars talks_on tokens_spent
        tokens_spent_agent tokens_spent_minute money_spent money_spent_agent money_spent_minute
    }
    figures { tests_failed tests_total coverage }
    flags {
        failed external untested enters twin twin_signature twin_failure twin_external twin_search
        polls relapses works shows silent only_calls searches shown_before unfinished new_thought
    }
    other_codes {
        turn speaker reset verdict told_verdict input_tokens_sum input_tokens_total output_tokens_sum
        output_tokens_total edit edit_back file
    }
    other_flags {
        own tries changes only_reads missing watches pauses brief one_thing
        unheard asks well awaits vague settles undoes guesses restates in_vain later makes removes
        states faulty hands_over of_place rewrites deploys of_server delegates thinks judges ran_out goes_to
        declined not_there tries_otherwise opens good
    }
}

/// All columns of a turn, each in a word.
pub type Words = [u64; COLUMNS.len()];

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
    pub phases_before: Vec<Option<Arc<str>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_all_columns() {
        let row = Row {
            call: 7,
            searches: true,
            ..Row::default()
        };
        let words = row.words();
        assert_eq!(words[0], 7);
        assert_eq!(Row::of(&words).words(), words);
        let mut columns = Columns::default();
        columns.push(row);
        let split = columns.split();
        assert_eq!(split.codes[0], ("call", vec![7]));
        assert_eq!(split.flags[15], ("searches", vec![true]));
        let names = split.codes.len() + split.figures.len() + split.flags.len();
        assert_eq!(names, COLUMNS.len());
    }
}
