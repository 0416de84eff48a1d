//! What the turns since the last reset have spent: in all, of each agent, and in the last minute.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::how::NS_PER_S;
use super::marks::Marked;

const MINUTE_S: i64 = 60;

/// What was spent since the last reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spending {
    tokens: i64,
    agents: BTreeMap<i64, i64>,
    /// By the second of their ends, those of the last minute.
    seconds: VecDeque<(i64, i64)>,
    tokens_minute: i64,
}

impl Spending {
    /// Add what a turn spends, and set what was spent up to it.
    pub fn spend(&mut self, one: &mut Marked) {
        let tokens = one.tokens_spent;
        let row = &mut one.row;
        let agent = self.agents.entry(row.agent).or_default();
        *agent = agent.saturating_add(tokens);
        self.tokens = self.tokens.saturating_add(tokens);
        row.tokens_spent = self.tokens;
        row.tokens_spent_agent = *agent;
        row.tokens_spent_minute = self.in_minute(row.end_ns.div_euclid(NS_PER_S), tokens);
    }

    /// Add what is spent in a second; return what was in the minute up to it.
    ///
    /// A turn that ends before the last one counts at the end of the last one.
    fn in_minute(&mut self, second: i64, tokens: i64) -> i64 {
        let since = second.saturating_sub(MINUTE_S);
        while let Some((_, gone)) = self.seconds.front().filter(|each| each.0 <= since) {
            self.tokens_minute -= gone;
            self.seconds.pop_front();
        }
        let room = i64::MAX - self.tokens_minute;
        let tokens = tokens.min(room);
        self.tokens_minute += tokens;
        match self.seconds.back_mut() {
            Some((last, spent)) if *last >= second => *spent += tokens,
            _ if tokens == 0 => (),
            _ => self.seconds.push_back((second, tokens)),
        }
        self.tokens_minute
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, each};
    use crate::count::turn::Turn;

    fn spends(second: i64, agent: &'static str, input: i64, cached: i64) -> Turn<'static> {
        Turn {
            agent: Some(agent),
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: 1,
            ..at(second, "model")
        }
    }

    #[test]
    fn tokens_from_a_cache_are_not_spent() {
        let turns = [
            spends(0, "a", 100, 90),
            spends(1, "b", 5, 9),
            spends(2, "a", 3, 0),
        ];
        assert_eq!(each(&turns, |row| row.tokens_spent), [11, 12, 16]);
        assert_eq!(each(&turns, |row| row.tokens_spent_agent), [11, 1, 15]);
    }

    #[test]
    fn a_person_begins_a_new_budget() {
        let person = Turn {
            call: Some("Go on."),
            call_id: Some("id"),
            ..at(1, "user")
        };
        let turns = [spends(0, "a", 9, 0), person, spends(2, "a", 4, 0)];
        assert_eq!(each(&turns, |row| row.tokens_spent), [10, 0, 5]);
    }

    #[test]
    fn a_minute_has_what_was_spent_less_than_sixty_seconds_ago() {
        let turns = [0, 0, 59, 30, 60, 119, 200].map(|second| spends(second, "a", 0, 0));
        let spent = each(&turns, |row| row.tokens_spent_minute);
        assert_eq!(spent, [1, 2, 3, 4, 3, 2, 1]);
    }
}
