//! Lists of bounded length.

/// A list of bounded length: it keeps the first so many of its entries, or so many evenly over all of them with the extremes
/// (the list says which), and counts the rest.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept<T> {
    /// The entries kept, in the log's order.
    pub rows: Vec<T>,
    /// Entries that are not among them.
    pub omitted: u64,
    /// Each row of an even list stands for so many entries.
    stride: u64,
    /// Entries that the last row of an even list stands for so far.
    taken: u64,
    /// The newest entry of an even list, if the last row is another one.
    newest: Option<T>,
}

impl<T: std::fmt::Debug> std::fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("rows", &self.rows).field("omitted", &self.omitted).finish()
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), omitted: 0, stride: 1, taken: 1, newest: None }
    }
}

impl<T> Kept<T> {
    pub(crate) fn push(&mut self, row: T, most: usize) {
        if self.rows.len() < most {
            self.rows.push(row);
        } else {
            self.omitted += 1;
        }
    }

    /// Keeps entries evenly: each row is the heaviest of as many entries as all others, so that the heaviest of all is
    /// kept. When the list is full, neighbours become one.
    pub(crate) fn push_even(&mut self, row: T, most: usize, weight: impl Fn(&T) -> u64) {
        let heavier = |a: T, b: T| if weight(&b) > weight(&a) { b } else { a };
        if self.taken < self.stride
            && let Some(last) = self.rows.pop()
        {
            // The newest one so far is not heavier than the row.
            self.newest = None;
            self.taken += 1;
            self.omitted += 1;
            if weight(&row) > weight(&last) {
                self.rows.push(row);
            } else {
                self.rows.push(last);
                self.newest = Some(row);
            }
            return;
        }
        self.newest = None;
        if self.rows.len() >= most.max(2) {
            let mut old = std::mem::take(&mut self.rows).into_iter();
            let mut halves = Vec::with_capacity(most.max(2));
            let mut odd = false;
            while let Some(a) = old.next() {
                odd = match old.next() {
                    Some(b) => {
                        self.omitted += 1;
                        halves.push(heavier(a, b));
                        false
                    }
                    None => {
                        halves.push(a);
                        true
                    }
                };
            }
            self.taken = if odd { self.stride } else { 2 * self.stride };
            self.stride *= 2;
            self.rows = halves;
            return self.push_even(row, most, weight);
        }
        self.rows.push(row);
        self.taken = 1;
    }

    /// Changes the newest entries, back to the first one that is not among them.
    pub(crate) fn undo(&mut self, among: impl Fn(&T) -> bool, change: impl Fn(&mut T)) {
        let newest = self.newest.iter_mut();
        newest.chain(self.rows.iter_mut().rev()).take_while(|row| among(row)).for_each(change);
    }

    /// No more come: the newest one is kept as well.
    pub(crate) fn seal(&mut self) {
        if let Some(row) = self.newest.take() {
            self.rows.push(row);
            self.omitted = self.omitted.saturating_sub(1);
        }
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.rows.len() as u64 + self.omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    quickcheck! {
        /// INV-ANALYSIS-BOUNDED, and what is kept: the heaviest, the first or what outweighs it, the last; in order, evenly.
        fn an_even_list_keeps_the_heaviest_and_the_last(weights: Vec<u8>, most: u8) -> bool {
            let most = usize::from(most % 20) + 2;
            let mut list = Kept::default();
            for (i, w) in weights.iter().enumerate() {
                list.push_even((i, *w), most, |r| u64::from(r.1));
            }
            list.seal();
            let heaviest = |rows: &[(usize, u8)]| rows.iter().map(|r| r.1).max();
            let all: Vec<(usize, u8)> = weights.iter().copied().enumerate().collect();
            let gaps = || list.rows.windows(2).map(|w| w[1].0 - w[0].0);
            list.total() == weights.len() as u64
                && list.rows.len() <= most + 1
                && (weights.len() <= most || list.rows.len() > most / 2)
                && heaviest(&list.rows) == heaviest(&all)
                && list.rows.last() == all.last()
                && gaps().all(|gap| gap > 0 && (gap as u64) < 2 * list.stride)
        }
    }
}
