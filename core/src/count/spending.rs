//! What the turns since the last reset have spent: in all, of each agent, and in the last minute.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::how::NS_PER_S;
use super::marks::Marked;

const MINUTE_S: i64 = 60;

/// An amount of tokens, and of money in billionths of the currency.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Amount {
    tokens: i64,
    money: i64,
}

impl Amount {
    fn add(&mut self, more: Self) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.money = self.money.saturating_add(more.money);
    }
}

/// What was spent since the last reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spending {
    all: Amount,
    agents: BTreeMap<i64, Amount>,
    /// By the second of their ends, the amounts of the last minute.
    seconds: VecDeque<(i64, Amount)>,
}

impl Spending {
    /// Add what a turn spends, and set what was spent up to it.
    pub fn spend(&mut self, one: &mut Marked) {
        let more = Amount {
            tokens: one.tokens_spent,
            money: one.money_spent,
        };
        let row = &mut one.row;
        self.all.add(more);
        let agent = self.agents.entry(row.agent).or_default();
        agent.add(more);
        let mine = *agent;
        let minute = self.in_minute(row.end_ns.div_euclid(NS_PER_S), more);
        (row.tokens_spent, row.money_spent) = (self.all.tokens, self.all.money);
        (row.tokens_spent_agent, row.money_spent_agent) = (mine.tokens, mine.money);
        (row.tokens_spent_minute, row.money_spent_minute) = (minute.tokens, minute.money);
    }

    /// Add what is spent in a second; return what was in the minute up to it.
    ///
    /// A turn that ends before the last one counts at the end of the last one.
    fn in_minute(&mut self, second: i64, more: Amount) -> Amount {
        let since = second.saturating_sub(MINUTE_S);
        while self.seconds.front().is_some_and(|each| each.0 <= since) {
            self.seconds.pop_front();
        }
        match self.seconds.back_mut() {
            Some((last, spent)) if *last >= second => spent.add(more),
            _ if more.tokens == 0 && more.money == 0 => (),
            _ => self.seconds.push_back((second, more)),
        }
        let mut minute = Amount::default();
        for (_, spent) in &self.seconds {
            minute.add(*spent);
        }
        minute
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, each};
    use crate::count::turn::{Price, Turn};

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
    fn each_kind_of_token_has_its_price() {
        let priced = Turn {
            cache_write_tokens: 20,
            output_tokens: 5,
            reasoning_tokens: 4,
            price: Some(Price([3.0, 15.0, 0.3, 3.75, 20.0])),
            ..spends(0, "a", 100, 50)
        };
        let turns = [priced, spends(1, "a", 100, 0)];
        let billionths = 30 * 3_000 + 15_000 + 50 * 300 + 20 * 3_750 + 4 * 20_000;
        assert_eq!(each(&turns, |row| row.money_spent), [billionths; 2]);
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
