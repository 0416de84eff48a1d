//! A task at rest: its turns in few bytes, which are read when the next turn comes.

use super::block::Block;
use super::numbers::{put, take};
use super::turns::{Turns, Watch};
use super::values::Names;
use super::waiting::Waiting;

impl Turns {
    /// Write all that is held.
    ///
    /// # Errors
    /// Counts cannot be written.
    pub fn written(&self) -> serde_json::Result<Vec<u8>> {
        let mut names = Block::default();
        self.names
            .0
            .iter()
            .for_each(|name| names.push(name.as_bytes()));
        let mut waiting = Block::default();
        for one in &self.waiting {
            let numbers = [one.id, one.step, one.order_ns, one.start_ns, one.end_ns];
            waiting.write(|bytes| {
                for number in numbers.into_iter().chain([one.kind, one.together.into()]) {
                    put(bytes, number as u64);
                }
            });
        }
        let mut counts = Block::default();
        let times = (self.settled, self.parts, self.newest_ns, self.crowded_ns);
        counts.push(&serde_json::to_vec(&(
            &self.settled_counts,
            &self.steps,
            times,
        ))?);
        let blocks = [&self.numbers, &self.evidence, &self.keys, &self.marked];
        let mut bytes = Vec::new();
        for block in blocks.into_iter().chain([&names, &waiting, &counts]) {
            block.put(&mut bytes);
        }
        Ok(bytes)
    }

    /// Forget what was written, but for times and how many turns are settled.
    pub fn forget(&mut self) {
        *self = Self {
            settled: self.settled,
            newest_ns: self.newest_ns,
            crowded_ns: self.crowded_ns,
            ..Self::default()
        };
    }

    /// Read what was written.
    ///
    /// # Errors
    /// Counts cannot be read.
    pub fn read(mut rest: &[u8], watch: &Watch) -> serde_json::Result<Self> {
        let mut block = || Block::take(&mut rest);
        let [numbers, evidence, keys, marked] = [block(), block(), block(), block()];
        let [names, waiting, counts] = [block(), block(), block()];
        let names = (0..names.len()).map(|at| String::from_utf8_lossy(names.at(at)).into());
        let one = |at| {
            let mut rest = waiting.at(at);
            let mut number = || take(&mut rest) as i64;
            Waiting {
                id: number(),
                step: number(),
                order_ns: number(),
                start_ns: number(),
                end_ns: number(),
                kind: number(),
                together: number() != 0,
            }
        };
        let (settled_counts, steps, times) = serde_json::from_slice(counts.at(0))?;
        let (settled, parts, newest_ns, crowded_ns) = times;
        let mut turns = Self {
            settled,
            names: Names(names.collect()),
            numbers,
            evidence,
            waiting: (0..waiting.len()).map(one).collect(),
            keys,
            marked,
            settled_counts,
            steps,
            parts,
            newest_ns,
            crowded_ns,
            ..Self::default()
        };
        turns.recount(watch);
        Ok(turns)
    }
}
