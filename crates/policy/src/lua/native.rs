//! `lpmlib`'s functions, as a policy calls them by `ffi`: C functions, which LuaJIT calls
//! from compiled code. `script/lpmlib.lua` declares them and checks types; a table that is
//! `NULL` is refused here.
//!
//! None throws, and none calls Lua. Addresses are in network order.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::io::Cursor;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use formats::Load;
use lookup::lpm::{Engines, Entry, Options as EngineOptions};
use lookup::{Addr, Hop, Rib};

use super::table::{Budget, Refused, Table};

/// The bytes of a file of a policy. A process has its files mapped before its memory is limited;
/// a copy would count against the limit.
#[derive(Clone)]
pub struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Bytes {
    /// Those of `bytes`, however they are kept.
    pub fn new(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Bytes(bytes)
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.as_ref().len())
    }
}

/// The parts of new tables; it stays at one address as long as the state that knows it.
pub(super) struct Library {
    v4: (&'static Entry<u32>, EngineOptions),
    v6: (&'static Entry<u128>, EngineOptions),
    budget: Rc<Budget>,
    files: BTreeMap<String, Bytes>,
    /// Why the last table could not be made from a file, NUL-terminated.
    why: Vec<u8>,
}

impl Library {
    /// Tables by engines of these names and options, in all of at most `bytes`.
    ///
    /// # Errors
    /// When there is no such engine; the error is a text.
    pub fn new(
        engines: [&(String, EngineOptions); 2],
        bytes: usize,
        files: BTreeMap<String, Bytes>,
    ) -> Result<Box<Self>, String> {
        fn entry<A: Engines>(
            (name, options): &(String, EngineOptions),
        ) -> Result<(&'static Entry<A>, EngineOptions), String> {
            let name = if name.is_empty() { A::DEFAULT } else { name };
            let entry = A::engine(name);
            let entry = entry.ok_or_else(|| format!("no engine {name} for {}", A::FAMILY))?;
            Ok((entry, options.clone()))
        }
        let [v4, v6] = engines;
        Ok(Box::new(Library {
            v4: entry(v4)?,
            v6: entry(v6)?,
            budget: Budget::new(bytes),
            files,
            why: vec![0],
        }))
    }

    /// The resources that tables lack and work without, if that is new.
    pub fn remark(&self) -> Option<String> {
        let (wanted, small) = self.budget.remark()?;
        let has = small
            .map_or("none but the prefixes themselves".into(), |name| format!("engine {name}"));
        Some(format!(
            "a table has {has}, which is slower: engine {wanted} wants more memory than \
             the process may have (memory_mib)"
        ))
    }

    fn empty<A: Family>(&self, paras: (u32, u32)) -> Table<A> {
        let (entry, options) = A::of(self);
        Table::new(entry, options, &self.budget, paras)
    }

    /// A table from the file called `name`: its prefixes of one family. The label is `label` if
    /// that is not negative, otherwise the next hop if its text is a number, otherwise the next
    /// hop's position in the file, from 1.
    fn read<A: Family>(&self, name: &str, label: i64) -> Result<Table<A>, String> {
        let file = self.files.get(name);
        let file = file.ok_or_else(|| format!("no file {name} was given to the policy"))?;
        let total = file.as_ref().len() as u64;
        let read = formats::Table::read(Cursor::new(file.clone()), total, &Load::default());
        let read = read.map_err(|error| format!("{name}: {error}"))?;
        let damaged = read.report.damaged;
        if damaged > 0 {
            return Err(format!("{name}: {damaged} lines or records are damaged"));
        }
        let (entry, _) = A::of(self);
        let hops: Vec<u64> = (0..=read.hops.len())
            .map(|id| {
                let named = read.hops.name(Hop(id as u32)).and_then(|text| text.parse().ok());
                let label = u64::try_from(label).ok().or(named).unwrap_or(id as u64);
                label.saturating_add(1)
            })
            .collect();
        let most = u64::from(entry.card.max_hop);
        if let Some(hop) = hops[1..].iter().find(|&&hop| hop > most) {
            return Err(format!("{name}: label {} exceeds {}", hop - 1, most - 1));
        }
        let rib = A::routes(&read);
        let rib: Rib<A> = rib.iter().map(|(at, hop)| (at, Hop(hops[hop.index()] as u32))).collect();
        let mut table = self.empty(((rib.len() as u32).saturating_mul(2).max(1 << 20), 0));
        table.fill(rib).map_err(|refused| match refused {
            Refused::Memory => format!("{name}: no memory is left for it"),
            _ => format!("{name}: engine {} refuses it", entry.card.name),
        })?;
        Ok(table)
    }
}

/// The differences between IPv4 and IPv6.
trait Family: Engines {
    fn of(library: &Library) -> (&'static Entry<Self>, &EngineOptions);
    fn routes(table: &formats::Table) -> &Rib<Self>;
}

impl Family for u32 {
    fn of(library: &Library) -> (&'static Entry<u32>, &EngineOptions) {
        (library.v4.0, &library.v4.1)
    }
    fn routes(table: &formats::Table) -> &Rib<u32> {
        &table.v4
    }
}

impl Family for u128 {
    fn of(library: &Library) -> (&'static Entry<u128>, &EngineOptions) {
        (library.v6.0, &library.v6.1)
    }
    fn routes(table: &formats::Table) -> &Rib<u128> {
        &table.v6
    }
}

/// The result of `str_to_prefix`.
#[repr(C)]
pub(super) struct Parsed {
    v4: u32,
    v6: [u8; 16],
    len: i32,
}

unsafe extern "C" fn parse(text: *const c_char, len: usize, family: i32, out: *mut Parsed) -> bool {
    // SAFETY: the library passes a Lua string and its length.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    // SAFETY: the library passes a structure of its own.
    let out = unsafe { &mut *out };
    let Some((addr, len)) = str::from_utf8(text).ok().and_then(|text| text.split_once('/')) else {
        return false;
    };
    let digits = !len.is_empty() && len.len() <= 3 && len.bytes().all(|b| b.is_ascii_digit());
    let Some(len) = len.parse::<u8>().ok().filter(|_| digits) else { return false };
    out.len = i32::from(len);
    if family == 4 {
        let Ok(addr) = addr.parse::<Ipv4Addr>() else { return false };
        out.v4 = u32::from_ne_bytes(addr.octets());
        len <= 32
    } else {
        let Ok(addr) = addr.parse::<Ipv6Addr>() else { return false };
        out.v6 = addr.octets();
        len <= 128
    }
}

/// The bytes of the file called `name`, null where there is none; `len` becomes their number.
unsafe extern "C" fn content(
    library: *const Library,
    name: *const c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the library passes what it was given, which lives as long as the state.
    let library = unsafe { &*library };
    // SAFETY: the library passes a variable of its own: the name's length.
    let len = unsafe { &mut *len };
    // SAFETY: a Lua string and its length.
    let name = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), *len) };
    let file = str::from_utf8(name).ok().and_then(|name| library.files.get(name));
    let file = file.map(Bytes::as_ref);
    *len = file.map_or(0, |file| file.len());
    file.map_or(std::ptr::null(), |file| file.as_ptr().cast())
}

unsafe extern "C" fn why(library: *const Library) -> *const c_char {
    // SAFETY: the library passes what it was given, which lives as long as the state.
    let library = unsafe { &*library };
    library.why.as_ptr().cast()
}

/// The functions of each family; `$addr` is how an address is passed, `$text` how it is written.
macro_rules! family {
    ($module:ident, $int:ty, $text:ty, $addr:ty, |$given:ident| $number:expr) => {
        mod $module {
            use super::*;

            fn code(result: Result<u32, Refused>) -> i32 {
                match result {
                    // Labels end below 2^31: a hop does.
                    Ok(n) => n as i32,
                    Err(refused) => refused as i32,
                }
            }

            /// What `work` answers for the table.
            unsafe fn with(
                table: *mut Table<$int>,
                work: impl FnOnce(&mut Table<$int>) -> Result<u32, Refused>,
            ) -> i32 {
                // SAFETY: it is null or, by its type in Lua, a table that `make` or `read`
                // gave and `free` has not had: Lua's collector alone calls `free`.
                let table = unsafe { table.as_mut() };
                table.map_or(Refused::Invalid as i32, |table| code(work(table)))
            }

            /// The address, in host order; `None` where there is none.
            fn number($given: $addr) -> Option<$int> {
                $number
            }

            unsafe extern "C" fn make(
                lib: *const Library,
                most: u32,
                tbl8s: u32,
            ) -> *mut Table<$int> {
                // SAFETY: the library passes what it was given.
                let lib = unsafe { &*lib };
                Box::into_raw(Box::new(lib.empty((most, tbl8s))))
            }

            unsafe extern "C" fn read(
                lib: *mut Library,
                name: *const c_char,
                len: usize,
                label: i64,
            ) -> *mut Table<$int> {
                // SAFETY: the library passes what it was given.
                let lib = unsafe { &mut *lib };
                // SAFETY: a Lua string and its length.
                let name = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), len) };
                match lib.read(&String::from_utf8_lossy(name), label) {
                    Ok(table) => Box::into_raw(Box::new(table)),
                    Err(mut error) => {
                        error.retain(|c| c != '\0');
                        error.push('\0');
                        lib.why = error.into_bytes();
                        std::ptr::null_mut()
                    }
                }
            }

            unsafe extern "C" fn free(table: *mut Table<$int>) {
                if !table.is_null() {
                    // SAFETY: of `make` or `read`; the collector frees it once.
                    drop(unsafe { Box::from_raw(table) });
                }
            }

            unsafe extern "C" fn add(
                t: *mut Table<$int>,
                ip: $addr,
                depth: u32,
                label: u32,
            ) -> i32 {
                let Some(ip) = number(ip) else { return Refused::Invalid as i32 };
                // SAFETY: as `with` says.
                unsafe { with(t, |table| table.add(ip, depth, label).map(|()| 0)) }
            }

            unsafe extern "C" fn del(t: *mut Table<$int>, ip: $addr, depth: u32) -> i32 {
                let Some(ip) = number(ip) else { return Refused::Invalid as i32 };
                // SAFETY: as `with` says.
                unsafe { with(t, |table| table.del(ip, depth).map(|()| 0)) }
            }

            unsafe extern "C" fn find(t: *mut Table<$int>, ip: $addr) -> i32 {
                let Some(ip) = number(ip) else { return Refused::Invalid as i32 };
                // SAFETY: as `with` says.
                unsafe { with(t, |table| table.find(ip)) }
            }

            unsafe extern "C" fn find_slowly(t: *mut Table<$int>, ip: $addr) -> i32 {
                let Some(ip) = number(ip) else { return Refused::Invalid as i32 };
                // SAFETY: as `with` says.
                unsafe { with(t, |table| table.find_slowly(ip)) }
            }

            unsafe extern "C" fn groups(t: *mut Table<$int>, ip: $addr, depth: u32) -> i32 {
                let Some(ip) = number(ip) else { return Refused::Invalid as i32 };
                // SAFETY: as `with` says.
                unsafe { with(t, |table| table.groups_for(ip, depth)) }
            }

            /// `ip` without the bits behind `depth`, as text; returns its length, 0 for a bad depth.
            unsafe extern "C" fn mask_text(
                ip: $addr,
                depth: u32,
                out: *mut c_char,
                room: usize,
            ) -> usize {
                let depth = u8::try_from(depth).ok().filter(|&depth| depth <= <$int>::WIDTH);
                let (Some(ip), Some(depth)) = (number(ip), depth) else { return 0 };
                let text = <$text>::from(ip & <$int>::mask(depth)).to_string();
                let len = text.len().min(room);
                // SAFETY: the library's buffer has `room` bytes, and is nothing of ours.
                unsafe { out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), len) };
                len
            }

            unsafe extern "C" fn paras(t: *const Table<$int>, which: i32) -> f64 {
                // SAFETY: as `with` says.
                let Some(table) = (unsafe { t.as_ref() }) else { return -1.0 };
                f64::from(if which == 0 { table.paras.0 } else { table.paras.1 })
            }

            /// The functions by the names that `script/lpmlib.lua` uses.
            pub const FUNCTIONS: &[(&str, *const c_void)] = &[
                ("make", make as *const c_void),
                ("read", read as *const c_void),
                ("free", free as *const c_void),
                ("add", add as *const c_void),
                ("del", del as *const c_void),
                ("find", find as *const c_void),
                ("find_slowly", find_slowly as *const c_void),
                ("groups", groups as *const c_void),
                ("paras", paras as *const c_void),
                ("mask_text", mask_text as *const c_void),
            ];
        }
    };
}

family!(v4, u32, Ipv4Addr, u32, |ip| Some(u32::from_be(ip)));
family!(v6, u128, Ipv6Addr, *const [u8; 16], |ip| {
    // SAFETY: null, or an address by what the policy says: `*const [u8; 16]` has no alignment.
    let ip = unsafe { ip.as_ref() };
    ip.map(|ip| u128::from_be_bytes(*ip))
});

/// Every function, by family (`""`: of both) and name.
pub(super) fn functions() -> impl Iterator<Item = (&'static str, &'static str, *const c_void)> {
    let both = [
        ("", "parse", parse as *const c_void),
        ("", "content", content as *const c_void),
        ("", "why", why as *const c_void),
    ];
    let of = |family, list: &'static [(&'static str, *const c_void)]| {
        list.iter().map(move |&(name, at)| (family, name, at))
    };
    both.into_iter().chain(of("4", v4::FUNCTIONS)).chain(of("6", v6::FUNCTIONS))
}
