//! Work on several cores. The threads end with the work, and results keep the order of its parts.

use std::panic::resume_unwind;
use std::thread::scope;

// Spans that take longer than the start of a thread.
const SPANS_MIN: usize = 256;

/// Share parts out to so many threads, each some that follow one another, by their `spans`.
pub fn shared_out<T>(
    parts: impl IntoIterator<Item = T>,
    threads: usize,
    spans: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let parts: Vec<T> = parts.into_iter().collect();
    let all: usize = parts.iter().map(&spans).sum();
    let most = all.div_ceil(threads.max(1)).max(SPANS_MIN);
    let mut shares: Vec<Vec<T>> = Vec::new();
    let mut left = 0;
    for part in parts {
        let count = spans(&part);
        match shares.last_mut().filter(|_| left > 0) {
            Some(share) => share.push(part),
            None => {
                shares.push(vec![part]);
                left = most;
            }
        }
        left = left.saturating_sub(count);
    }
    shares
}

/// The result of some work for each share; this thread does the first, and one thread each other.
///
/// # Panics
///
/// Where the work does.
pub fn each<T: Send, R: Send>(shares: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    scope(|scope| {
        let mut shares = shares.into_iter();
        let first = shares.next();
        let others: Vec<_> = shares
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        let mut results: Vec<R> = first.into_iter().map(work).collect();
        for other in others {
            results.push(other.join().unwrap_or_else(|fault| resume_unwind(fault)));
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_in_order() {
        let parts: Vec<usize> = (0..10_000).collect();
        for threads in [1, 2, 3, 7] {
            let shares = shared_out(parts.clone(), threads, |_| 1);
            assert_eq!(shares.len(), threads);
            assert_eq!(each(shares, |share| share).concat(), parts);
        }
        assert_eq!(shared_out(0..SPANS_MIN, 8, |_| 1).len(), 1);
        assert!(shared_out(0..0, 8, |_| 1).is_empty());
        assert_eq!(shared_out([1, 5_000, 1, 1], 2, |spans| *spans).len(), 2);
    }

    #[test]
    #[should_panic(expected = "no")]
    fn a_fault_in_a_thread_is_one_of_the_work() {
        each(vec![1, 2], |number| assert!(number == 1, "no"));
    }
}
