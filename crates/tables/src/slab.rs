//! A list with stable indices.

/// Values by index; an index that is free again is used again.
pub(crate) struct Slab<T> {
    list: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { list: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.list[at as usize] = Some(value); // cannot panic: it was in the list
                at
            }
            None => {
                self.list.push(Some(value));
                self.list.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.list.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.list.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.list.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.list.iter().enumerate().filter_map(|(i, value)| Some((i as u32, value.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }
}
