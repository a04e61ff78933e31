//! The newest values of a series.

/// The newest `N` values.
///
/// Memory is allocated with the first value: most connections are idle and never have one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest<T, const N: usize> {
    values: Vec<T>,
    /// Index of the next value, at the end until there are `N`.
    next: usize,
}

impl<T: Copy + Default, const N: usize> Newest<T, N> {
    /// Adds a value, replacing the oldest one if there are `N`.
    pub(crate) fn push(&mut self, value: T) {
        match self.values.get_mut(self.next) {
            Some(oldest) => *oldest = value,
            None => {
                if self.values.is_empty() {
                    self.values.reserve_exact(N);
                }
                self.values.push(value);
            }
        }
        self.next = (self.next + 1) % N;
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.next = 0;
    }

    pub(crate) const fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the values, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        let (newer, older) = self.values.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).copied()
    }

    /// Returns a copy of the values, in no particular order, with undefined values behind the first [`len`](Self::len).
    pub(crate) fn copied(&self) -> [T; N] {
        let mut copy = [T::default(); N];
        copy.iter_mut().zip(&self.values).for_each(|(to, from)| *to = *from);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_values_remain_in_order() {
        let mut newest = Newest::<u32, 3>::default();
        for value in 0..8 {
            assert_eq!(newest.len(), value.min(3) as usize);
            let expected: Vec<u32> = (0..value).rev().take(3).collect();
            assert_eq!(newest.iter().collect::<Vec<_>>(), expected);
            let mut copied = newest.copied()[..newest.len()].to_vec();
            copied.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
            assert_eq!(copied, expected);
            newest.push(value);
        }
        newest.clear();
        newest.push(9);
        assert_eq!(newest.iter().collect::<Vec<_>>(), [9]);
    }
}
