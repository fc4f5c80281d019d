//! Memory asked for before it is taken: a table that does not fit ends in an error,
//! where a collection that grows by itself would end the process.

use std::collections::HashMap;
use std::hash::Hash;
use std::hint::black_box;

use lookup::pages;

/// There is none for as many routes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no memory for so many routes: {} MiB wanted", .wanted.div_ceil(1 << 20))]
pub struct NoMemory {
    /// Bytes of the piece that was asked for last.
    pub wanted: usize,
}

/// Asks whether there are `bytes`, and takes nothing.
pub(crate) fn ask(bytes: usize) -> Result<(), NoMemory> {
    let no_memory = NoMemory { wanted: bytes };
    pages::ask(bytes).map_err(|_| no_memory)?;
    let mut piece = Vec::<u8>::new();
    piece.try_reserve_exact(bytes).map_err(|_| no_memory)?;
    black_box(&piece); // a piece that nobody looks at is not asked for
    Ok(())
}

/// Makes room for one more: where there is none, for as many again.
pub(crate) fn grow<T>(list: &mut Vec<T>) -> Result<(), NoMemory> {
    if list.len() < list.capacity() {
        return Ok(());
    }
    let more = list.len().max(LEAST);
    let no_memory = NoMemory { wanted: more * size_of::<T>() };
    pages::admit(no_memory.wanted).map_err(|_| no_memory)?;
    list.try_reserve_exact(more).map_err(|_| no_memory)?;
    ask(Small::WANTED) // the rest has to do for what is small
}

/// As [`grow`].
pub(crate) fn grow_map<K: Eq + Hash, V>(map: &mut HashMap<K, V>) -> Result<(), NoMemory> {
    if map.len() < map.capacity() {
        return Ok(());
    }
    // Twice as many places, of which an eighth stays empty, and a byte for each.
    let places = (map.capacity() * 8 / 7 * 2).max(LEAST);
    let no_memory = NoMemory { wanted: places * (size_of::<(K, V)>() + 1) };
    pages::admit(no_memory.wanted).map_err(|_| no_memory)?;
    map.try_reserve(1).map_err(|_| no_memory)?;
    ask(Small::WANTED)
}

/// What is too small to be asked for by itself, such as a name: asked for together,
/// before every so many routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Small {
    left: u32,
}

impl Small {
    /// Before each route.
    pub(crate) fn ask(&mut self) -> Result<(), NoMemory> {
        if self.left == 0 {
            ask(Self::WANTED)?;
            self.left = Self::ROUTES;
        }
        self.left -= 1;
        Ok(())
    }

    const ROUTES: u32 = 4096;

    /// Of each route 1 KiB: for its next hop's name and, of an MRT file, its peers.
    const WANTED: usize = 4096 << 10;
}

/// Elements of the smallest list.
const LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_can_be_is_refused() {
        assert_eq!(ask(1 << 20), Ok(()));
        let most = isize::MAX as usize;
        assert_eq!(ask(most), Err(NoMemory { wanted: most }));
    }

    #[test]
    fn what_grows_has_room_for_one_more() {
        let (mut list, mut map) = (Vec::new(), HashMap::new());
        for i in 0..1000_u32 {
            grow(&mut list).unwrap();
            grow_map(&mut map).unwrap();
            let before = (list.capacity(), map.capacity());
            list.push(i);
            map.insert(i, i);
            assert_eq!((list.capacity(), map.capacity()), before);
        }
    }
}
